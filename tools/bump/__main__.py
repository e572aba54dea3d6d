"""Brings gpulint to a new release of a product: tables, schemas, the newest version, and the tests that ask about each version.

    python3 tools/bump PRODUCT VERSION...

    kubernetes 1.38.0            karpenter 1.16.0 1.16.1 (core, AWS provider)            keda 2.22.0
    operator Kueue v0.20.0       catalog 1.16.1 (the AWS provider whose tables of instance types and prices are read)

Prints each line of a table that changes, and what is left to a person. Without a version the tables are written again. Needs Go
and Python with PyYAML; CONTRIBUTING.md has the rest.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLATFORM = ROOT / "rules/reader/src/platform.rs"
# What a product's files are; the lines that changed in them are printed.
WRITTEN = {
    "kubernetes": ["rules/schemas/core", "rules/src/kind/api_minors.tsv"],
    "karpenter": ["rules/src/karpenter"],
    "keda": ["rules/schemas/keda.sh", "rules/src/rules/manifest/since-keda.tsv", "rules/src/keda/scalers.txt"],
    "operator": [],
    "catalog": ["rules/src/catalog"],
}
# The tests that ask about every version of what is in the tables.
MATRIX = {
    "kubernetes": ["--test", "it", "version"],
    "karpenter": ["--test", "it", "version"],
    "keda": ["--test", "it", "keda_versions"],
    "operator": ["--lib", "schema::operators"],
    "catalog": ["--lib", "catalog"],
}
LEFT = {
    "kubernetes": "rules/src/kind/api_versions.tsv: new kinds and versions\n"
    "rules/schemas/core/strict.yaml and rules/src/schema/validation: what changed in the validation of k8s.io/kubernetes/pkg/apis",
    "karpenter": "the schemas named above; NEEDS in feature_gate_off.rs; rules/src/lint/upgrades.tsv; drift/hash.rs; the scheduler",
    "keda": "rules/src/keda/types.tsv and constraints.txt",
    "operator": "nothing, unless a kind or an API version is new: a row of rules/src/kind/table.rs",
    "catalog": "families that EC2 no longer lists: RETIRED in generate.py",
}


def run(*command, folder=ROOT):
    environment = {"GOTOOLCHAIN": "go1.26.10+auto", **os.environ}
    subprocess.run([str(part) for part in command], check=True, cwd=folder, env=environment)


def minor(version):
    return version.rsplit(".", 1)[0]


def kubernetes(versions):
    run(sys.executable, HERE / "kubernetes.py", *versions)


def karpenter(versions):
    run(sys.executable, HERE / "karpenter.py", *([minor(versions[0]), *versions] if versions else []))


def keda(versions):
    run(ROOT / "tools/bump-keda", *versions)


def operator(arguments):
    run(sys.executable, HERE / "operators.py", *arguments)


def catalog(versions):
    generate = ROOT / "rules/src/catalog/generate.py"
    if versions:
        generate.write_text(re.sub(r'^VERSION = ".*"', f'VERSION = "v{versions[0]}"', generate.read_text(), flags=re.M))
    run(sys.executable, generate)


def raise_newest(product, version):
    """Makes a version the newest that gpulint knows. The default stays: for Kubernetes it is a decision."""
    name = {"kubernetes": "Kubernetes", "karpenter": "Karpenter", "keda": "Keda"}[product]
    text = PLATFORM.read_text()
    row = re.search(rf"Product::{name} => \[Version::new\(\d+, \d+\), (Version::new\((\d+), (\d+)\))", text)
    new = tuple(int(part) for part in version.split(".")[:2])
    if new > (int(row[2]), int(row[3])):
        changed = row[0].replace(row[1], "Version::new({}, {})".format(*new))
        PLATFORM.write_text(text.replace(row[0], changed))
        print(f"{PLATFORM.relative_to(ROOT)}: the newest {name} is {new[0]}.{new[1]}; the default version is left to a person")


def print_changes(paths):
    """The lines that came and went in tables; of large files the number alone."""
    if not paths:
        return
    diff = subprocess.run(["git", "diff", "-U0", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for line in diff.splitlines():
        if line.startswith("+++ "):
            print(line[6:])
        elif re.match(r"[+-](?!--|#)", line) and len(line) < 200:
            print(" ", line)
    run("git", "--no-pager", "diff", "--stat", "--", *paths)


def main(arguments):
    product, versions = (arguments[0] if arguments else ""), arguments[1:]
    if product not in WRITTEN:
        sys.exit(__doc__)
    globals()[product](versions)
    if versions and product in ("kubernetes", "karpenter", "keda"):
        raise_newest(product, versions[0])
    print_changes(WRITTEN[product])
    print(f"\nLeft to a person:\n{LEFT[product]}\n")
    run("cargo", "test", "-p", "gpulint-rules", *MATRIX[product])


if __name__ == "__main__":
    main(sys.argv[1:])
