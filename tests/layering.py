#!/usr/bin/env python3
"""Compares the includes of every module with the DEPS it declares, and says which arrow should not be there.

usage: layering.py SOURCE_DIR MODULES_FILE   (the build writes MODULES_FILE: "module: dep dep ..." a line)
"""
import os
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
HEAVY = re.compile(r"^#include <(boost/asio|boost/beast|openssl/|simdjson|spdlog/|CLI/|nlohmann/|nghttp2/)", re.M)


def module_of(path, modules):
    """The longest module name that is a folder above the path."""
    best = ""
    for name in modules:
        if path.startswith(name + "/") and len(name) > len(best):
            best = name
    return best


def main():
    source, listing = sys.argv[1:3]
    with open(listing) as f:
        modules = {line.split(":")[0]: set(line.split(":")[1].split()) for line in f if ":" in line}
    faults, seen = [], 0
    for name in sorted(modules):
        for folder, _, files in os.walk(os.path.join(source, name)):
            for file in files:
                path = os.path.relpath(os.path.join(folder, file), source)
                if not file.endswith((".h", ".cc")) or module_of(path, modules) != name:
                    continue
                with open(os.path.join(source, path)) as f:
                    text = f.read()
                seen += 1
                if file.endswith(".h"):
                    faults += [f"{path}: heavy header in a header: {m[1]}" for m in HEAVY.finditer(text)]
                    if "#pragma once" not in text:
                        faults.append(f"{path}: no #pragma once")
                for include in INCLUDE.findall(text):
                    target = module_of(include, modules)
                    if target in ("", name) or target in modules[name] or file.endswith(("_test.cc", "_fuzz.cc")):
                        continue
                    faults.append(f"{path} includes {include}: {name} does not declare {target} in its DEPS")
    for fault in faults:
        print(fault)
    if seen == 0:
        print(f"no sources of any module found below {source}")
    sys.exit(1 if faults or seen == 0 else 0)


if __name__ == "__main__":
    main()
