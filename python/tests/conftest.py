import pytest
from devices import NAMES, open_or_skip


@pytest.fixture(params=NAMES)
def device(request):
    """Each device: "cpu" with DeviceArrays, and a GPU."""
    return open_or_skip(NAMES[request.param])


@pytest.fixture(params=["gpu"])
def gpu(request):
    return open_or_skip(NAMES[request.param])
