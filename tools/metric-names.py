#!/usr/bin/env python3
"""Writes rules/src/promql/names.txt: every name that a release of an exporter has used for its metrics.

Usage: tools/metric-names.py WHEELS GO_DCGM DCGM_EXPORTER TGI TRITON_CORE

WHEELS is a folder with wheels of SGLang (`pip download --no-deps sglang==VERSION`), the others are git directories of
NVIDIA/go-dcgm, NVIDIA/dcgm-exporter, huggingface/text-generation-inference and triton-inference-server/core (all
Apache-2.0, but for the core of Triton: BSD-3-Clause). Only names are taken. A `#` stands for a number. llama.cpp has
so few that `OF_LLAMA` lists them, from `tools/server/README.md`, `server-context.cpp` and the pull requests 5937,
9283, 13660 and 22879.
"""

import datetime
import pathlib
import re
import subprocess
import sys
import zipfile

TARGET = pathlib.Path(__file__).parent.parent / "rules/src/promql/names.txt"
# Names in tests and comments of go-dcgm that are no fields.
NO_FIELDS = {"DCGM_FI_DEV_GONE", "DCGM_FI_DEV_REAL", "DCGM_FI_DEV_SOMETHING_REMOVED", "DCGM_FI_PROF_"}
OF_LLAMA = """prompt_tokens_total prompt_seconds_total prompt_tokens_seconds tokens_predicted_total
tokens_predicted_seconds_total predicted_tokens_seconds requests_processing requests_deferred n_tokens_max
n_decode_total n_busy_slots_per_decode kv_cache_usage_ratio kv_cache_tokens spec_decode_num_draft_tokens_total
spec_decode_num_accepted_tokens_total spec_decode_num_drafts_total spec_decode_num_accepted_tokens_per_pos_total"""


def git(repository, *arguments):
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True).stdout


def in_history(repository, pattern, *paths, step=1):
    """What a pattern matches in the commits of a repository."""
    found = set()
    for commit in git(repository, "rev-list", "HEAD").split()[::step]:
        found.update(git(repository, "grep", "-hoE", pattern, commit, "--", *paths).split("\n"))
    return {name.strip().strip('"') for name in found if name}


def of_sglang(wheels):
    """The names, and the newest version."""
    names, versions = {}, []
    for wheel in pathlib.Path(wheels).glob("sglang-*.whl"):
        versions.append(tuple(int(part) for part in wheel.name.split("-")[1].split(".post")[0].split(".")))
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith(".py") and "test" not in member:
                    text = archive.read(member).decode("utf-8", "replace")
                    for name in re.findall(r"[\"'](sglang:[a-z0-9_]+)[\"']", text):
                        is_counter = re.search(r"Counter\(\s*(name=)?[\"']" + name + r"[\"']", text)
                        names[name] = names.get(name) or (is_counter and not name.endswith("_total"))
    # The Python client adds the suffix to counters.
    return {name + ("_total" if is_bare else "") for name, is_bare in names.items()}, max(versions)


def main():
    wheels, go_dcgm, dcgm_exporter, tgi, triton = sys.argv[1:]
    fields = in_history(go_dcgm, r"^#define +DCGM_FI_[A-Z0-9_]+", "*.h") | in_history(go_dcgm, r'"DCGM_FI_[A-Z0-9_]+"', "*.go")
    fields = {field.split()[-1] for field in fields} - NO_FIELDS
    computed = set(git(dcgm_exporter, "grep", "-hoE", r"DCGM_EXP_[A-Z0-9]+_[A-Z0-9_]+", "HEAD", "--", "internal/pkg/counters/const.go").split())
    sglang, newest = of_sglang(wheels)
    lists = {
        "dcgm": fields | computed,
        "llama.cpp": {"llamacpp:" + name for name in OF_LLAMA.split()},
        "sglang": sglang,
        "tgi": {name for name in in_history(tgi, r'"tgi_[a-z_]+"', "*.rs", step=20) if "trtllm" not in name},
        "triton": in_history(triton, r'"nv_inference_[a-z_]+"', "src", step=20),
    }
    with open(TARGET, "w") as out:
        out.write("# Written by tools/metric-names.py: the exporter, and a name, in which `#` is a number.\n")
        out.write(f"# Written on {datetime.date.today()} from SGLang's wheels up to {'.'.join(map(str, newest))} (PyPI, Apache-2.0), the\n")
        out.write("# history of NVIDIA/go-dcgm, NVIDIA/dcgm-exporter and huggingface/text-generation-inference (Apache-2.0) and of\n")
        out.write("# triton-inference-server/core (BSD-3-Clause), and the documentation of llama.cpp (MIT).\n")
        for exporter, names in sorted(lists.items()):
            for name in sorted({re.sub(r"\d+", "#", name) for name in names}):
                out.write(f"{exporter}\t{name}\n")


main()
