#!/usr/bin/env python3
"""Kubernetes' own end-to-end suite on a real control plane, or on the embedded one, whose nodes are ghosts (or KWOK's, to compare).

usage: e2e_test.py GHOSTFLEET [--embedded] [--nodes ghost|kwok|both] [--quick | --focus REGEX] [--processes N] [--minutes N] [--table FILE]

Without --focus the specs of e2e/selection.txt run. A spec of e2e/passing.txt that fails on ghosts is a failure of this test, every other
one is told with its message; with --embedded those of e2e/embedded.txt may fail. --quick runs the specs that passing.txt marks with a star.
--table writes what came out as a Markdown table.
Where the programs come from: GHOSTFLEET_E2E_BIN (scripts/setup --e2e) for e2e.test and ginkgo, cluster.py says where the others.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time

from cluster import SKIPPED, Cluster, free_port, program, ready_nodes, wait_for
from embedded import EmbeddedCluster

HERE = os.path.dirname(os.path.abspath(__file__))
# Specs that break the cluster, take many minutes, or need what is off by default.
NEVER = r"\[Disruptive\]|\[Slow\]|\[Flaky\]|\[Feature:|\[FeatureGate:|\[Alpha\]|\[Driver:|\[Windows"
PROFILE = "m7i.xlarge"


def lines(name):
    """The lines of a file of e2e/ without comments."""
    with open(os.path.join(HERE, "e2e", name)) as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


def e2e_program(name):
    path = os.path.join(os.environ.get("GHOSTFLEET_E2E_BIN", ""), name)
    return path if os.access(path, os.X_OK) else None


def reasons(name):
    """Specs that fail, and why: NAME -- WHY."""
    return dict(line.rsplit(" -- ", 1) for line in lines(name))


def must_pass(quick, embedded):
    """Names of specs; those of the quick selection begin with a star."""
    listed = lines("passing.txt")
    names = [line[1:].strip() if line.startswith("*") else line for line in listed if line.startswith("*") or not quick]
    excused = reasons("embedded.txt") if embedded else {}
    return [n for n in names if n not in excused]


def exactly(names):
    return "|".join(re.escape(n) + "$" for n in names)


class Nodes:
    """The nodes of one kind on a cluster."""

    def __init__(self, cluster, kind, args):
        self.c, self.kind, self.args = cluster, kind, args

    def start(self):
        (self.start_ghosts if self.kind == "ghost" else self.start_kwok)()
        process = self.c.processes["fleet" if self.kind == "ghost" else "kwok"]
        wait_for(f"{self.args.count} nodes Ready", lambda: not process.running() or ready_nodes(self.c.items("/api/v1/nodes")) == self.args.count, 120)
        if not process.running():
            raise AssertionError(f"{self.kind} ended:\n" + process.tail())

    def start_ghosts(self):
        # The suite's images are there, but for those that it takes for missing.
        rules = self.c.write("images.yaml", "- {match: '*:404', error: NotFound}\n- {match: 'invalid.registry*', error: NotFound}\n- {match: '*doesnt-exist*', error: NotFound}\n")
        self.c.add("fleet", [self.args.ghostfleet, "fleet", "--kubeconfig", self.c.kubeconfig, "--nodes", str(self.args.count), "--profile", PROFILE, "--name", "ghost", "--image-rules", rules,
                             *self.args.fleet_flags], env={"GHOSTFLEET_HOME": self.c.path("home")})

    def start_kwok(self):
        root = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
        stages = [f for part in ("node/fast", "node/heartbeat-with-lease", "pod/fast") for f in sorted(glob.glob(f"{root}/sigs.k8s.io/kwok@v0.8.0/kustomize/stage/{part}/*.yaml"))]
        config = [word for f in stages if not f.endswith("kustomization.yaml") for word in ("--config", f)]
        room = {"cpu": "4", "memory": "16Gi", "pods": "58", "ephemeral-storage": "80Gi"}
        for i in range(self.args.count):
            name = f"kwok-{i}"
            self.c.post("/api/v1/nodes", {
                "metadata": {"name": name, "labels": {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
                             "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}},
                "status": {"capacity": room, "allocatable": room}})
        self.c.add("kwok", [program("kwok"), "--kubeconfig", self.c.kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds", "40",
                            "--server-address", f"127.0.0.1:{free_port()}", *config])


class Outcome:
    """What the suite said about a spec."""

    def __init__(self, report):
        self.name = " ".join([*(report.get("ContainerHierarchyTexts") or []), report["LeafNodeText"]])
        self.state, self.seconds = report["State"], report["RunTime"] / 1e9
        self.message = " ".join((report.get("Failure") or {}).get("Message", "").split())
        self.ran = report["LeafNodeType"] == "It" and self.state not in ("skipped", "pending")
        self.skip_reason = self.message if self.state == "skipped" else ""


def run_suite(cluster, focus, args):
    """All outcomes; the log of the suite stays in the cluster's folder."""
    command = [e2e_program("ginkgo"), f"--procs={args.processes}", "--no-color", "--silence-skips", "--keep-going", f"--timeout={args.minutes}m", f"--focus={focus}", f"--skip={NEVER}{'|' + args.skip if args.skip else ''}",
               "--json-report=report.json", f"--output-dir={cluster.dir}", e2e_program("e2e.test"), "--", f"--kubeconfig={cluster.kubeconfig}", "--provider=skeleton",
               f"--kubectl-path={program('kubectl')}", "--allowed-not-ready-nodes=0", "--dump-logs-on-failure=false", f"--report-dir={cluster.dir}", "--disable-log-dump=true"]
    with open(cluster.path("suite.log"), "wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            child.wait(args.minutes * 60 + 120)
        finally:
            child.kill()
            child.wait()
    try:
        with open(cluster.path("report.json")) as f:
            reports = [r for suite in json.load(f) for r in suite["SpecReports"] or []]
    except (OSError, ValueError):
        raise AssertionError("the suite left no report:\n" + open(cluster.path("suite.log"), errors="replace").read()[-3000:])
    broken = [r for r in reports if r["LeafNodeType"] != "It" and r["State"] not in ("passed", "skipped", "pending") and "Suite" in r["LeafNodeType"]]
    if broken:
        raise AssertionError("the suite could not begin: " + (broken[0].get("Failure") or {}).get("Message", "?"))
    return [o for o in map(Outcome, (r for r in reports if r["LeafNodeType"] == "It")) if o.ran or o.skip_reason]


def run_on(kind, focus, args):
    begin = time.monotonic()
    real = lambda: Cluster(flags=["--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP,Hostname"])
    with EmbeddedCluster(args.ghostfleet) if args.embedded else real() as c:
        Nodes(c, kind, args).start()
        ready = time.monotonic()
        outcomes = run_suite(c, focus, args)
        name = "fleet" if kind == "ghost" else "kwok"
        for process in (c.processes[name], c.processes["apiserver"]):
            if not process.running():
                raise AssertionError(f"{process.name} ended:\n" + process.tail())
    ran = [o for o in outcomes if o.ran]
    passed = sum(o.state == "passed" for o in ran)
    print(f"{kind}: {passed} of {len(ran)} specs pass ({args.count} nodes, {ready - begin:.0f} s to start, {time.monotonic() - ready:.0f} s of specs)", flush=True)
    for o in sorted(ran, key=lambda o: o.name):
        if o.state != "passed":
            print(f"  {o.state} {o.name} ({o.seconds:.0f} s)\n      {o.message[:300]}", flush=True)
    return {o.name: o for o in outcomes}


def write_table(path, results, embedded):
    """One row a spec that ran; why it fails on ghosts, from e2e/failing.txt and e2e/embedded.txt."""
    why = {**reasons("failing.txt"), **(reasons("embedded.txt") if embedded else {})}
    names = sorted({n for outcomes in results.values() for n, o in outcomes.items() if o.ran})
    with open(path, "w") as f:
        f.write("| spec | " + " | ".join(results) + " | why not on ghosts |\n|---|" + "---|" * len(results) + "---|\n")
        for name in names:
            states = [results[kind][name].state if name in results[kind] else "not run" for kind in results]
            reason = why.get(name, "") if "ghost" in results and states[0] != "passed" else ""
            f.write(f"| {name.replace('|', chr(92) + '|')} | " + " | ".join(states) + f" | {reason} |\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--embedded", action="store_true", help="on the embedded control plane")
    parser.add_argument("--nodes", choices=("ghost", "kwok", "both"), default="ghost")
    parser.add_argument("--focus", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--count", type=int, default=6, help="nodes")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--skip", default="", help="further specs to leave out, a pattern")
    parser.add_argument("--table")
    parser.add_argument("--fleet-flags", default="--behavior command", type=str.split)
    args = parser.parse_args()
    if not e2e_program("e2e.test") or not e2e_program("ginkgo"):
        print("e2e.test, ginkgo: not found (scripts/setup --e2e, then GHOSTFLEET_E2E_BIN=FOLDER)", flush=True)
        sys.exit(1 if os.environ.get("GHOSTFLEET_E2E_BIN") else SKIPPED)
    wanted = must_pass(args.quick, args.embedded)
    if args.quick and not wanted:
        sys.exit("e2e/passing.txt names no spec with a star")
    focus = args.focus or (exactly(wanted) if args.quick else "|".join(lines("selection.txt")))
    results = {kind: run_on(kind, focus, args) for kind in (("ghost", "kwok") if args.nodes == "both" else (args.nodes,))}
    if args.table:
        write_table(args.table, results, args.embedded)
    if "ghost" not in results:
        return
    ghosts = results["ghost"]
    missing = [n for n in wanted if n not in ghosts] if not args.focus else []
    failed = [n for n in wanted if n in ghosts and ghosts[n].state != "passed"]
    for name in failed:
        print(f"FAIL {name}: {ghosts[name].message[:1000]}", flush=True)
    for name in missing:
        print(f"FAIL {name}: the suite has no such spec", flush=True)
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    main()
