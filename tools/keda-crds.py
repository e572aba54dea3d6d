#!/usr/bin/env python3
"""Derives from KEDA's CRDs what gpulint knows of KEDA's kinds.

    tools/keda-crds.py MODULE-DIRECTORY...

Takes one directory of the module github.com/kedacore/keda/v2 for each minor version, oldest first, and writes the schemas of the
last one (rules/schemas/keda.sh) and which version added and removed each field and enum value (rules/src/rules/manifest/since-keda.tsv).
"""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "rules/schemas/keda.sh/v1alpha1"
SINCE = ROOT / "rules/src/rules/manifest/since-keda.tsv"
WIDTH = 116

# Both kinds of authentication have one schema.
KINDS = {
    "ScaledObject": ["scaledobjects"],
    "ScaledJob": ["scaledjobs"],
    "TriggerAuthentication": ["triggerauthentications", "clustertriggerauthentications"],
}
NAMES = {
    "scaledobjects": "ScaledObject",
    "scaledjobs": "ScaledJob",
    "triggerauthentications": "TriggerAuthentication",
    "clustertriggerauthentications": "ClusterTriggerAuthentication",
}
# Parts that are types of Kubernetes, which gpulint has anyway.
REFERENCES = {
    "spec.jobTargetRef.podFailurePolicy": "io.k8s.api.batch.v1.PodFailurePolicy",
    "spec.jobTargetRef.selector": "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "spec.jobTargetRef.successPolicy": "io.k8s.api.batch.v1.SuccessPolicy",
    "spec.jobTargetRef.template.spec": "io.k8s.api.core.v1.PodSpec",
}
KEYWORDS = [
    "type", "format", "default", "enum", "minimum", "maximum", "minLength", "minItems", "pattern", "required",
    "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
]
# Keywords without which any value passes.
BOUNDS = ["enum", "minimum", "minItems", "minLength"]
HEAD = """\
# {kind} of KEDA {version}.
#
# Written by tools/keda-crds.py from the CRD of the module: structure, enums, bounds and patterns. CEL rules and
# KEDA's admission are in rules.
"""


def main(directories):
    versions = [version_of(d) for d in directories]
    definitions = [{plural: read(d, plural) for plural in NAMES} for d in directories]
    newest, version = definitions[-1], versions[-1]
    for kind, plurals in KINDS.items():
        schemas = [slim(newest[plural], "") for plural in plurals]
        if any(schema != schemas[0] for schema in schemas):
            sys.exit(f"{', '.join(plurals)} differ")
        text = HEAD.format(kind=" and Cluster".join([kind] * len(plurals)), version=version)
        (SCHEMAS / f"{kind}.yaml").write_text(text + "\n".join(Writer(schemas[0]).lines()) + "\n")
    SINCE.write_text(since(versions, definitions))


def version_of(directory):
    return re.search(r"@v(\d+\.\d+\.\d+)$", directory.rstrip("/")).group(1)


def read(directory, plural):
    path = pathlib.Path(directory) / "config/crd/bases" / f"keda.sh_{plural}.yaml"
    return yaml.safe_load(path.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def slim(schema, path):
    """The keywords that gpulint knows, without the fields that only the server writes."""
    if path in REFERENCES:
        return {"$ref": REFERENCES[path]}
    out = {keyword: schema[keyword] for keyword in KEYWORDS if keyword in schema}
    properties = {
        name: slim(inner, f"{path}.{name}".lstrip("."))
        for name, inner in schema.get("properties", {}).items()
        if path or name == "spec"
    }
    if properties:
        out["properties"] = properties
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            out[keyword] = slim(schema[keyword], path)
    return out


class Writer:
    """Writes a schema as YAML: what fits on a line in flow style, and a large part that occurs again as an alias."""

    def __init__(self, schema):
        self.schema = schema
        self.counts = {}
        self.anchors = {}
        self.count(schema)

    def count(self, value):
        if isinstance(value, dict):
            key = json.dumps(value, sort_keys=True)
            self.counts[key] = self.counts.get(key, 0) + 1
            if self.counts[key] == 1:
                for inner in value.values():
                    self.count(inner)

    def lines(self):
        return self.block(self.schema, 0)

    def block(self, value, indent):
        lines = []
        for name, inner in value.items():
            head = " " * indent + scalar(name) + ":"
            key = json.dumps(inner, sort_keys=True)
            shared = isinstance(inner, dict) and len(key) > 120 and self.counts[key] > 1
            if shared and key in self.anchors:
                lines.append(f"{head} *{self.anchors[key]}")
                continue
            if shared:
                self.anchors[key] = name
                head += f" &{name}"
            line = f"{head} {flow(inner)}"
            if len(line) <= WIDTH or not isinstance(inner, dict):
                lines.append(line)
            else:
                lines.append(head)
                lines.extend(self.block(inner, indent + 2))
        return lines


def flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def scalar(value):
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z$][A-Za-z0-9.$/-]*", value) and value not in ("true", "false", "null", "yes", "no")
        return value if plain else "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def since(versions, definitions):
    minors = [".".join(version.split(".")[:2]) for version in versions]
    rows = []
    for plural, kind in NAMES.items():
        fields = [flatten(d[plural]) for d in definitions]
        for path in sorted(set().union(*fields)):
            # A field inside of a new field came with it.
            above = path.rsplit("/", 1)[0]
            span, outer = ([span_of([p in known for known in fields], minors) for p in (path, above)])
            if span and span != outer:
                rows.append((kind, path, "-", *span))
            known = [(minor, field[path]) for minor, field in zip(minors, fields) if path in field]
            within = [minor for minor, _ in known]
            for bound in BOUNDS:
                if span := span_of([bound in schema for _, schema in known], within):
                    rows.append((kind, path, f"({bound})", *span))
            enums = [schema.get("enum") for _, schema in known]
            for value in sorted({value for enum in enums for value in enum or []}):
                # Without an enum every value is accepted.
                if span := span_of([enum is None or value in enum for enum in enums], within):
                    rows.append((kind, path, value, *span))
    head = (
        "# Fields and values that a version of KEDA brought or removed.\n#\n"
        f"# Written by tools/keda-crds.py from the CRDs of KEDA {', '.join(versions)}.\n#\n"
        "# Group and kind, the field (`*` is each item of a list), the value (`-`: the field itself, `(minimum)`: a bound of it),\n"
        "# product, the first version that has it, and the last one (`-`: the oldest or newest).\n"
    )
    return head + "".join(f"keda.sh/{k}\t{p}\t{v}\tKEDA\t{a}\t{b}\n" for k, p, v, a, b in rows)


def span_of(present, minors):
    """The first and the last version that has something; None if all have it, or if it comes and goes."""
    if all(present) or not any(present):
        return None
    first, last = present.index(True), len(present) - 1 - present[::-1].index(True)
    if not all(present[first : last + 1]):
        sys.stderr.write("a field or value comes and goes\n")
        return None
    return minors[first] if first else "-", minors[last] if last + 1 < len(minors) else "-"


def flatten(schema, path="", out=None):
    """The schema of each field, by its path."""
    out = {} if out is None else out
    if path:
        out[path] = schema
    for name, inner in schema.get("properties", {}).items():
        if path or name == "spec":
            flatten(inner, f"{path}/{name}".lstrip("/"), out)
    if isinstance(schema.get("items"), dict):
        flatten(schema["items"], f"{path}/*", out)
    return out


main(sys.argv[1:])
