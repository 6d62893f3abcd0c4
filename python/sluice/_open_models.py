"""Opens _models, the module with Sluice's models."""

import importlib
import os
import sys

# Its sentencepiece exports protobuf's functions. Where another library has put its own into the global scope, as tensorflow
# does, sentencepiece would call those and crash. With this flag it finds its own first.
_flags = sys.getdlopenflags()
sys.setdlopenflags(_flags | os.RTLD_DEEPBIND)
try:
    importlib.import_module(f"{__package__}._models")
finally:
    sys.setdlopenflags(_flags)
