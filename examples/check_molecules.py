#!/usr/bin/env python3
"""Shares of generated molecules that are valid, unique and new. Takes RDKit: pip install rdkit.

    check_molecules.py samples.smi data/smiles/chembl_validation.smi.gz

Valid is a SMILES (one a line) that RDKit reads and finds chemically possible; unique how many different
molecules the valid ones are; new how many of those are not in the second file. Molecules are compared
by RDKit's canonical SMILES.
"""

import gzip
import pathlib
import sys


def lines_of(path):
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return data.decode().splitlines()


def canonical(lines):
    """Of each line that is a molecule; empty ones are none."""
    from rdkit import Chem, RDLogger
    RDLogger.DisableLog("rdApp.*")
    molecules = (Chem.MolFromSmiles(line) for line in lines if line.strip())
    return [Chem.MolToSmiles(molecule) for molecule in molecules if molecule is not None]


def share(name, count, of, what):
    print(f"{name:<7} {count:>7} of {of} {what}: {count / max(of, 1):.2%}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    samples = lines_of(sys.argv[1])
    valid = canonical(samples)
    unique = set(valid)
    share("valid", len(valid), len(samples), "samples")
    share("unique", len(unique), len(valid), "valid ones")
    share("new", len(unique - set(canonical(lines_of(sys.argv[2])))), len(unique), "different ones")


if __name__ == "__main__":
    main()
