#!/usr/bin/env python3
"""Writes the schemas of the kinds of operators from the CustomResourceDefinitions of their releases.

Reads the releases that operators.tsv names, and writes rules/schemas/operators.json: for each served version of a kind what every
release agrees on. Which release a cluster runs is unknown, so a field or value that any of them has is accepted, and a field is
required if all of them require it. Pod specs refer to the core types. Only structure is kept: types, enums, required fields.

A release is read from the git repository of its project, or from its Go module if the repository does not have it. GPULINT_MIRRORS names a folder with
`<owner>+<name>/repo` for a machine that has them. To run it: python3 tools/bump/operators.py [OPERATOR TAG], such as Kueue v0.20.0, which is
added to operators.tsv in place of another patch of its minor version (two minutes; PyYAML with libyaml).
"""

import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = pathlib.Path(__file__).with_name("operators.tsv")
TYPES = ROOT / "rules/schemas/core/types.json"
FIELDS = ROOT / "rules/schemas/core/fields.tsv"
OUT = ROOT / "rules/schemas/operators.json"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# What controller-gen declares of the metadata in a template.
TEMPLATE_METADATA = {"annotations", "finalizers", "labels", "name", "namespace"}
COMMON = {"apiVersion", "kind", "metadata", "status"}
ANY = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
# Kinds whose `spec` may lack sections that every release requires: the operator's chart writes the object, and people keep the
# sections that they change.
EXCERPTS = {"ClusterPolicy"}
# A type of a few fields must have the same ones; of a larger one, a release made for an older Kubernetes lacks some.
FEW, PART = 4, 0.6


def repository(name):
    """The git directory of a repository, cloned without the contents of files if there is none."""
    mirrors = os.environ.get("GPULINT_MIRRORS")
    cache = pathlib.Path(mirrors or pathlib.Path.home() / ".cache/gpulint")
    path = cache / name.replace("/", "+") / "repo"
    if not path.is_dir():
        url = f"https://github.com/{name}"
        subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", url, str(path)], check=True)
    return path


def git(path, *arguments):
    return subprocess.run(["git", "-C", str(path), *arguments], check=True, capture_output=True).stdout


class Release:
    """The definitions in one release of an operator."""

    parsed = {}

    def __init__(self, repo, tag, folder):
        self.path, self.files = repository(repo), {}
        if subprocess.run(["git", "-C", self.path, "rev-parse", "--quiet", "--verify", f"{tag}^{{commit}}"], stdout=subprocess.DEVNULL).returncode == 0:
            lines = git(self.path, "ls-tree", "-r", tag, folder).decode().splitlines()
            found = [(line.split("\t")[1], line.split()[2]) for line in lines]
        else:
            found = [(str(file), file) for file in sorted((module(repo, tag) / folder).rglob("*.yaml"))]
        for name, file in found:
            # Beside the definitions of today there may be those of an old API, later in the alphabet.
            self.files.setdefault(name.rsplit("/", 1)[-1], file)

    def versions(self, resource):
        """The kind of a resource and its served versions: {(group, version, kind): schema}."""
        file = self.files.get(f"{resource}.yaml")
        if file is None:
            return {}
        if file not in Release.parsed:
            text = git(self.path, "show", file) if isinstance(file, str) else file.read_bytes()
            Release.parsed[file] = definition(yaml.load(text, yaml.CSafeLoader))
        return Release.parsed[file]


def module(repo, tag):
    """The folder of a release's Go module, for a repository of which there is no newer copy."""
    environment = {"GOTOOLCHAIN": "go1.26.10+auto", **os.environ, "GOFLAGS": "-mod=mod"}
    command = ["go", "mod", "download", "-json", f"github.com/{repo}@{tag}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd="/")
    return pathlib.Path(json.loads(done.stdout)["Dir"])


def definition(crd):
    spec, out = crd["spec"], {}
    for version in spec["versions"]:
        if version["served"]:
            schema = lean(version["schema"]["openAPIV3Schema"])
            for name in COMMON:
                schema["properties"].pop(name, None)
            if spec["names"]["kind"] in EXCERPTS:
                schema["properties"]["spec"].pop("required")
            schema["required"] = [name for name in schema.get("required", []) if name not in COMMON]
            out[spec["group"], version["name"], spec["names"]["kind"]] = schema
    return out


def lean(schema):
    """Structure, types, enums and required fields of a schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    out = {key: schema[key] for key in ("type", "nullable", *ANY, "x-kubernetes-embedded-resource") if schema.get(key)}
    if all(isinstance(value, str) for value in schema.get("enum", [])) and schema.get("enum"):
        out["enum"] = sorted(schema["enum"])
    fields = schema.get("properties", {})
    if fields:
        out["properties"] = {name: lean(field) for name, field in fields.items()}
        # A field with a default is never missing.
        required = [name for name in schema.get("required", []) if "default" not in fields.get(name, {})]
        if required:
            out["required"] = required
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = lean(schema[key])
        elif schema.get(key) is True:
            out[key] = True
    if out.get("type") == "object" and not fields and "additionalProperties" not in out:
        # Of a part that no release describes, nothing is said.
        out.update(ANY)
    return out


def union(a, b):
    """A schema that accepts what either of two accepts."""
    if a == b:
        return a
    texts = {json.dumps(INT_OR_STRING), '{"type": "string"}', '{"type": "integer"}'}
    if {json.dumps(a), json.dumps(b)} <= texts:
        return INT_OR_STRING
    if a.get("type") != b.get("type"):
        return ANY
    out = {"type": a["type"]} if "type" in a else {}
    for key in ("nullable", *ANY, "x-kubernetes-embedded-resource"):
        if a.get(key) or b.get(key):
            out[key] = True
    if "enum" in a and "enum" in b:
        out["enum"] = sorted({*a["enum"], *b["enum"]})
    fields, others = a.get("properties", {}), b.get("properties", {})
    if fields or others:
        out["properties"] = {
            name: union(fields.get(name, others.get(name)), others.get(name, fields.get(name)))
            for name in sorted({*fields, *others})
        }
    if required := [name for name in a.get("required", []) if name in b.get("required", [])]:
        out["required"] = required
    if "items" in a and "items" in b:
        out["items"] = union(a["items"], b["items"])
    extra = [schema["additionalProperties"] for schema in (a, b) if "additionalProperties" in schema]
    if len(extra) == 2 and all(isinstance(one, dict) for one in extra):
        out["additionalProperties"] = union(*extra)
    elif extra:
        out["additionalProperties"] = True
    return out


class CoreTypes:
    """The types of Kubernetes that gpulint has, to refer to them."""

    def __init__(self):
        types = json.loads(TYPES.read_text())
        self.types = {name: of for name, of in types.items() if name.startswith("io.k8s.") and "properties" in of}
        self.by_field = {}
        for name, of in self.types.items():
            if name != META and not {"apiVersion", "kind"} <= of["properties"].keys():
                for field in of["properties"]:
                    self.by_field.setdefault(field, []).append(name)
        self.all = types
        # How many fields of a type came with one of the versions of Kubernetes that gpulint knows.
        rows = [line.split("\t") for line in FIELDS.read_text().splitlines() if not line.startswith("#")]
        self.newer = collections.Counter(row[0] for row in rows if row[2] != "-")

    def refer(self, schema):
        """The schema with core types in the place of their copies."""
        fields = schema.get("properties", {})
        if fields and fields.keys() == TEMPLATE_METADATA:
            return {"$ref": META}
        if name := self.equal(schema):
            return {"$ref": name}
        out = dict(schema)
        if fields:
            out["properties"] = {name: self.refer(field) for name, field in fields.items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                out[key] = self.refer(schema[key])
        return out

    def equal(self, schema):
        """The core type with the fields of a schema. The smallest, if there are several."""
        fields = schema.get("properties")
        if not fields or len(fields) < 2:
            return None
        rarest = min(fields, key=lambda field: len(self.by_field.get(field, [])))
        found = [name for name in self.by_field.get(rarest, []) if self.covers(name, schema)]
        return min(found, key=lambda name: (len(self.types[name]["properties"]), name), default=None)

    def covers(self, name, schema):
        """Whether a core type accepts what a schema accepts, and little else."""
        of, fields = self.types[name], schema.get("properties", {})
        known = of["properties"]
        old = len(known) - self.newer[name]
        enough = old if old <= FEW else PART * old
        return (
            fields.keys() <= known.keys()
            and len(fields) >= enough
            and {*of.get("required", [])} <= {*schema.get("required", [])}
            and not schema.keys() & {*ANY, "additionalProperties"}
            and all(self.same(known[field], fields[field]) for field in fields)
        )

    def same(self, core, schema):
        if "$ref" in core:
            name = core["$ref"]
            return self.covers(name, schema) if name in self.types else self.same(self.all.get(name, {}), schema)
        if "enum" in schema:
            return False
        if core == INT_OR_STRING or schema == INT_OR_STRING:
            return core == schema
        if core.get("type") != schema.get("type"):
            return False
        for key in ("items", "additionalProperties"):
            if key in core:
                return key in schema and isinstance(schema[key], dict) and self.same(core[key], schema[key])
        return "properties" not in schema


def sources():
    for line in SOURCES.read_text().splitlines():
        if not line.startswith("#"):
            name, repo, licence, folder, resources, tags = line.split("\t")
            yield name, repo, licence, folder, resources.split(), tags.split()


def add(name, tag):
    """Adds a release to operators.tsv, in place of an earlier one of its minor version."""
    lines = SOURCES.read_text().splitlines()
    found = [at for at, line in enumerate(lines) if line.startswith(f"{name}\t")]
    if not found:
        sys.exit(f"operators.tsv has no {name}")
    *cells, tags = lines[found[0]].split("\t")
    kept = [known for known in tags.split() if minor(known) not in (None, minor(tag))]
    lines[found[0]] = "\t".join([*cells, " ".join([*kept, tag])])
    SOURCES.write_text("\n".join(lines) + "\n")


def minor(tag):
    """The minor version of a release; None for a commit of the main branch."""
    found = re.search(r"(\d+\.\d+)\.\d+$", tag)
    return found and found[1]


def main(arguments):
    if len(arguments) == 2:
        add(*arguments)
    core, today = CoreTypes(), datetime.date.today().isoformat()
    operators, made = {}, {}
    for name, repo, licence, folder, resources, tags in sources():
        for tag in tags:
            release = Release(repo, tag, folder)
            for resource in resources:
                for kind, schema in release.versions(resource).items():
                    # Some definitions are in the releases of two projects: the first gives the name.
                    known = made.get(kind)
                    made[kind] = (known[0], union(known[1], schema)) if known else (name, schema)
        minors = [minor(tag) for tag in tags if minor(tag)]
        operators[name] = {"from": minors[0], "to": minors[-1], "repository": repo, "licence": licence, "releases": tags}
    schemas = {
        "/".join(kind): {"operator": name, "schema": core.refer(schema)} for kind, (name, schema) in made.items()
    }
    origin = f"Generated by tools/bump/operators.py from the releases below, {today}."
    old = OUT.read_text().splitlines() if OUT.exists() else []
    lines = ["{", f'"//":{json.dumps(origin)}', f'"operators":{compact(operators)}']
    lines += [f"{json.dumps(name)}:{compact(schema)}" for name, schema in sorted(schemas.items())]
    new = ["{", *(",\n".join(lines[1:])).split("\n"), "}"]
    OUT.write_text("\n".join(new) + "\n")
    report(old, new)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def report(old, new):
    """Prints the fields and values that came and went."""
    before, after = ({path for line in text for path in paths(line)} for text in (old, new))
    for sign, changed in (("+", after - before), ("-", before - after)):
        for path in sorted(changed)[:200]:
            print(sign, path)
    print(f"{len(new) - 4} schemas, {sum(map(len, new))} bytes, {len(after)} fields and values")


def paths(line):
    """The fields and enum values of a line of the file."""
    key, _, text = line.rstrip(",").partition('":{"operator"')
    if not text:
        return

    def walk(schema, at):
        for name, field in schema.get("properties", {}).items():
            yield f"{at}.{name}"
            yield from walk(field, f"{at}.{name}")
        for value in schema.get("enum", []):
            yield f"{at}={value}"
        for inner in (schema.get("items"), schema.get("additionalProperties")):
            if isinstance(inner, dict):
                yield from walk(inner, at)

    yield from walk(json.loads('{"operator"' + text)["schema"], key.strip('"'))


if __name__ == "__main__":
    main(sys.argv[1:])
