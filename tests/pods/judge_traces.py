#!/usr/bin/env python3
"""Plays the pods of tests/data/traces/pods on the pod manager and judges its recordings against a real kubelet's.

usage: judge_traces.py POD_TRACE_WRITER WORK_DIR

Full fidelity: every pod must come out the same but those in ACCEPTED. Light fidelity: the same, except for what it leaves out on purpose (LIGHT).
"""
import argparse
import importlib.util
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
spec = importlib.util.spec_from_file_location("trace_diff", os.path.join(ROOT, "support", "trace_diff.py"))
trace_diff = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trace_diff)

ACCEPTED = set()
# What the pretending runtime of the recordings does and a kubelet's would not, by pod: how the finding begins.
KNOWN = {
    "host-network": ("addresses: never",),  # it gives sandboxes in the host's network an address of their own, which containerd does not
    "short-name": ("final status.containerStatuses.c.image:",),  # it names images as they were asked for; containerd adds docker.io/library
    "read-only-mounts": ("final status.containerStatuses.c.volumeMounts:",),  # it has no recursive read-only mounts; containerd 2 has
}
# Light fidelity asks for no tokens, takes other objects as there, and asks probes only when their answer can change something.
LIGHT_ACCEPTED = {
    "no-configmap", "no-secret", "env-no-key", "volume-no-key", "pvc-missing", "no-pull-secret", "deadline-mount", "delete-env", "delete-mounting",
    "env-late", "env-second", "init-no-key", "items-late", "projected-missing", "volume-late", "env-from-missing", "env-from-secret", "env-secret-init",
    "env-side", "projected-key", "volumes-two-missing",
    "dl2-config", "ep2-env", "ob2-deadline", "ob2-init-late", "ob2-secret-two",  # objects
    "probe-all", "side-ready",  # probes
    "deadline-crash",  # an end in two steps is one
    "deadline-image",  # whether a second pull comes before the deadline is chance
}
LIGHT_TEXTS = ("token requests:",)


def options():
    return argparse.Namespace(window=90, brief=1.5, slack=1.5, share=0.25, strict=False, timeline=False, quiet=True, most=15, nodes=[None, None])


def judge(folder, accepted, texts):
    recorded = os.path.join(ROOT, "data", "traces", "recorded")
    bad = 0
    for name in sorted(n[:-4] for n in os.listdir(recorded)):
        c = trace_diff.compare(f"{recorded}/{name}.txt", f"{folder}/{name}.txt", options())
        known = (*texts, *KNOWN.get(name, ()))
        wrong = [t for s, t in c.findings if s == "wrong" and not t.startswith(known or ("\0",))]
        verdict = "accepted" if wrong and name in accepted else "wrong" if wrong else "same"
        bad += verdict == "wrong"
        print(f"{name}: {verdict}")
        for t in wrong:
            print(f"    {t}")
    return bad


def main():
    writer, work = sys.argv[1:3]
    pods = os.path.join(ROOT, "data", "traces", "pods")
    bad = 0
    # A kubelet stretches its waits at random: with some seeds "unlively" is restarted late enough to escape its last back-off.
    for mode, seed, accepted, texts in (("full", "1", ACCEPTED, ()), ("light", "4", LIGHT_ACCEPTED, LIGHT_TEXTS)):
        print(f"== {mode} fidelity")
        out = os.path.join(work, mode)
        os.makedirs(work, exist_ok=True)
        subprocess.run([writer, pods, out, mode, seed], check=True)
        bad += judge(out, accepted, texts)
    print(f"{bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
