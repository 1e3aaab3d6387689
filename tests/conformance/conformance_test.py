#!/usr/bin/env python3
"""The recorded conversations with a real kube-apiserver, held with the embedded control plane (README.md has the format).

known_failures.txt names the conversations that are known to differ, with the reason. The test fails when another one differs, and when one of
these passes (then its line must go).

usage: conformance_test.py GHOSTFLEET [--set api|controllers]
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from plane import Plane  # noqa: E402


def known_failures(which):
    names = set()
    with open(os.path.join(HERE, "known_failures.txt")) as f:
        for line in f:
            words = line.split("#")[0].split()
            if len(words) == 2 and words[0] == which:
                names.add(words[1])
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--set", default="api")
    args = parser.parse_args()
    flags = ["--controllers", "none", "--scheduler", "off"] if args.set == "api" else ["--scheduler", "off"]
    flags += ["--allow-privileged", "off"]  # as the recorded server was started
    with Plane(args.ghostfleet, *flags) as p:
        import base64
        ca = os.path.join(p.home, "ca.crt")
        with open(ca, "wb") as f:
            f.write(base64.b64decode(open(p.kubeconfig).read().split("certificate-authority-data: ")[1].split()[0]))
        done = subprocess.run([sys.executable, os.path.join(HERE, "api_diff.py"), "check", "--server", p.server, "--token", p.token, "--ca", ca, "--set", args.set, "--jobs", "2"],
                              capture_output=True, text=True)
    results = {name: result for result, name in re.findall(r"^(pass|FAIL) +(\S+)", done.stdout, re.M)}
    failed = {n for n, r in results.items() if r == "FAIL"}
    known = known_failures(args.set)
    print("\n".join(line for line in done.stdout.splitlines()[-1:]))
    for name in sorted(failed - known):
        print("differs, and is not known to:", name)
    for name in sorted(known - failed):
        print("passes (or does not exist), though listed in known_failures.txt:", name)
    if not results:
        print(done.stdout[-2000:], done.stderr[-2000:])
    sys.exit(0 if results and failed == known else 1)


if __name__ == "__main__":
    main()
