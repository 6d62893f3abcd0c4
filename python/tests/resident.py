"""Memory that this process holds."""


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
