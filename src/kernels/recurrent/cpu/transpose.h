#pragma once

#include "kernels/transpose.h"
