"""Packages with trained models inside, as their index has them. Nothing of them is kept in the repository."""

import functools
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import pytest


@functools.cache
def cache_folder():
    folder = os.environ.get("SLUICE_INTEROP_CACHE") or tempfile.mkdtemp(prefix="sluice-interop-")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    return pathlib.Path(folder)


def unpack(path, folder):
    """The files of a tar archive. Python before 3.11.4 has no filter, so names that lead elsewhere are refused here."""
    with tarfile.open(path) as archive:
        members = [one for one in archive.getmembers() if one.isfile() or one.isdir()]
        for one in members:
            name = pathlib.PurePosixPath(one.name)
            assert not name.is_absolute() and ".." not in name.parts, f"{path}: {one.name}"
        archive.extractall(folder, members)


@functools.cache
def package(name, version):
    """The folder that the files of a package lie in; skips the test if it cannot be had."""
    folder = cache_folder() / f"{name}-{version}"
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", temporary, f"{name}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        files = list(pathlib.Path(temporary).iterdir())
        if done.returncode != 0 or len(files) != 1:
            pytest.skip(f"pip cannot download {name} {version}: {done.stderr.strip()[-300:]}")
        unpacked = pathlib.Path(temporary) / "unpacked"
        if files[0].suffix == ".whl":
            with zipfile.ZipFile(files[0]) as archive:
                archive.extractall(unpacked)
        else:
            unpack(files[0], unpacked)
        unpacked.rename(folder)
    return folder


def file_of(name, version, pattern):
    """The one file of a package that matches."""
    (found,) = package(name, version).glob(pattern)
    return found
