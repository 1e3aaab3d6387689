#!/usr/bin/env python3
"""CPU of an emulator per lease renewal against a real kube-apiserver: ours and KWOK 0.8 in the same run.

Both hold the same number of idle nodes for the same time; renewals are those the API server counted (apiserver_request_total), CPU is the
emulator process's user and system time. Needs the real components (scripts/setup --real); everything shares this machine's cores, TLS is on.

usage: renewals.py GHOSTFLEET [--nodes 2000] [--seconds 60] [--rounds 3]
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "real"))
from cluster import Cluster, free_port, program, ready_nodes, wait_for  # noqa: E402


def lease_writes(c):
    text = c.request("GET", "/metrics", raw=True)[1].decode()
    return sum(float(m[2]) for m in re.finditer(r'^apiserver_request_total\{([^}]*resource="leases"[^}]*)\} (\S+)$', text, re.M)
               if re.search(r'verb="(PUT|PATCH)"', m[1]) and 'code="200"' in m[1])


def measure(c, process, seconds):
    """Microseconds of CPU per renewal, renewals a second, resident bytes."""
    time.sleep(15)
    writes, cpu, begin = lease_writes(c), process.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    n = lease_writes(c) - writes
    return (process.cpu_seconds() - cpu) / n * 1e6, n / (time.monotonic() - begin), process.rss_bytes()


def ghostfleet(c, args):
    env = {"GHOSTFLEET_HOME": c.path("home")}
    p = c.add("fleet", [args.ghostfleet, "fleet", "--kubeconfig", c.kubeconfig, "--nodes", str(args.nodes), "--profile", "m5.large", "--name", "bench"], env=env)
    wait_for("nodes Ready", lambda: ready_nodes(c.items("/api/v1/nodes?resourceVersion=0")) == args.nodes, 300, 1)
    result = measure(c, p, args.seconds)
    p.stop()
    subprocess.run([args.ghostfleet, "down", "--kubeconfig", c.kubeconfig, "--fleet", "bench"], check=True, capture_output=True, env={**os.environ, **env})
    return result


def stages():
    """KWOK's own stages, from its module in Go's cache."""
    root = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    files = [f for part in ("node/fast", "node/heartbeat-with-lease", "pod/fast") for f in sorted(glob.glob(f"{root}/sigs.k8s.io/kwok@v0.8.0/kustomize/stage/{part}/*.yaml"))]
    return [f for f in files if not f.endswith("kustomization.yaml")]


def kwok(c, args):
    for i in range(args.nodes):
        c.post("/api/v1/nodes", {"metadata": {"name": f"kwok-{i}", "labels": {"type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}},
                                 "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"}}})
    config = [x for f in stages() for x in ("--config", f)]
    p = c.add("kwok", [program("kwok"), "--kubeconfig", c.kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds", "40",
                       "--server-address", f"127.0.0.1:{free_port()}", *config])
    wait_for("nodes Ready", lambda: ready_nodes(c.items("/api/v1/nodes?resourceVersion=0")) == args.nodes, 300, 1)
    result = measure(c, p, args.seconds)
    p.stop()
    c.request("DELETE", "/api/v1/nodes?labelSelector=type%3Dkwok")
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rows = {"ghostfleet": [], "kwok": []}
    with Cluster(scheduler=False, controllers=False) as c:
        for _ in range(args.rounds):
            for name, run in (("ghostfleet", ghostfleet), ("kwok", kwok)):
                rows[name].append(run(c, args))
                print(name, "%.1f us/renewal, %.0f renewals/s, %.1f MiB" % (rows[name][-1][0], rows[name][-1][1], rows[name][-1][2] / 2**20), flush=True)
    median = {name: statistics.median(r[0] for r in results) for name, results in rows.items()}
    print(json.dumps({"nodes": args.nodes, "us_per_renewal": median, "times_less": median["kwok"] / median["ghostfleet"]}))


if __name__ == "__main__":
    main()
