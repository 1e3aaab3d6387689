#!/usr/bin/env python3
"""Very many pods that wait for an address: what they cost the fleet, and whether the leases notice.

Starts a control plane and, as a process of its own, a fleet on a VPC whose one subnet has addresses for the nodes only; a Deployment fills the nodes with pods, none of which gets an address, so that each
is tried again every 10 to 15 s. CPU is the fleet process's, before there are pods and while they wait.

usage: waiting_pods.py GHOSTFLEET [--nodes 1000] [--pods 100000] [--seconds 60] [--event-rate RATE]
"""
import argparse
import json
import os
import re
import ssl
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "real"))
from cluster import Process  # noqa: E402

VPC = """apiVersion: ghostfleet.dev/v1alpha1
kind: VPC
metadata: {name: full}
spec:
  cidrs: [10.0.0.0/16]
  subnets: [{name: a, zone: us-west-2a, cidr: SUBNET}]
  quotas: {multiplier: 1000, interfaces: 100000}
  ipam: {disableNetworkResourceProvisioning: true}  # else the first nodes take what the others need for themselves
"""


def started(folder, name, *words):
    return Process(name, words, folder, {"GHOSTFLEET_HOME": folder}).start()


def text_of(child):
    with open(child.log) as f:
        return f.read()


def wait(what, condition, seconds, children):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end or not all(c.running() for c in children):
            raise SystemExit(f"{what}: not within {seconds} s\n" + "\n".join(text_of(c)[-1500:] for c in children))
        time.sleep(0.5)


def metrics(fleet):
    with urllib.request.urlopen(re.search(r"metrics: (\S+)", text_of(fleet))[1], timeout=30) as answer:
        text = answer.read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\w+)(?:\{\})? (\S+)$", text, re.M)}, text


def lateness(text):
    """Of renewals: counts by bucket."""
    return {float(m[1]): float(m[2]) for m in re.finditer(r'^ghostfleet_lease_lateness_seconds_bucket\{le="([0-9.e+-]+)"\} (\S+)', text, re.M)}


def quantile(before, after, q):
    counts = {le: after[le] - before.get(le, 0) for le in after}
    total = max(counts.values())
    return min(le for le, n in counts.items() if n >= q * total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=100000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--event-rate")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gf-waiting-")
    bits = 32 - (args.nodes + 5).bit_length()
    vpc, kubeconfig = os.path.join(folder, "vpc.yaml"), os.path.join(folder, "kubeconfig")
    with open(vpc, "w") as f:
        f.write(VPC.replace("SUBNET", f"10.0.0.0/{bits}"))
    plane = started(folder, "plane", args.ghostfleet, "controlplane", "--port", "0", "--kubeconfig", kubeconfig)
    wait("kubeconfig", lambda: os.path.exists(kubeconfig), 60, [plane])
    time.sleep(1)
    with open(kubeconfig) as f:
        text = f.read()
    server, token = text.split("server: ")[1].split()[0], text.split("token: ")[1].split()[0]
    rate = ["--event-rate", args.event_rate] if args.event_rate else []
    fleet = started(folder, "fleet", args.ghostfleet, "fleet", "--kubeconfig", kubeconfig, "--nodes", str(args.nodes), "--profile", "p5.48xlarge", "--zones", "us-west-2a", "--name", "w", "--vpc", vpc,
                  "--metrics-port", "0", *rate)
    both = [plane, fleet]
    wait("nodes Ready", lambda: "metrics: " in text_of(fleet) and metrics(fleet)[0]["ghostfleet_nodes_ready"] == args.nodes, 300, both)
    wait("daemons", lambda: metrics(fleet)[0]["ghostfleet_ipam_daemons"] == args.nodes, 300, both)
    time.sleep(30)
    begin, cpu = time.monotonic(), fleet.cpu_seconds()
    time.sleep(args.seconds)
    idle, idle_rss = (fleet.cpu_seconds() - cpu) / (time.monotonic() - begin), fleet.rss_bytes()
    labels = {"app": "w"}
    body = {"metadata": {"name": "w"}, "spec": {"replicas": args.pods, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}}
    request = urllib.request.Request(server + "/apis/apps/v1/namespaces/default/deployments", json.dumps(body).encode(), {"Content-Type": "application/json", "Authorization": "Bearer " + token})
    urllib.request.urlopen(request, context=ssl._create_unverified_context()).read()
    wait("pods placed", lambda: metrics(fleet)[0]["ghostfleet_pods"] == args.pods, 600, both)
    time.sleep(30)
    before, text = metrics(fleet)
    late = lateness(text)
    begin, cpu = time.monotonic(), fleet.cpu_seconds()
    time.sleep(args.seconds)
    spent = time.monotonic() - begin
    used = fleet.cpu_seconds() - cpu
    after, text = metrics(fleet)
    asked = after["ghostfleet_ipam_add_requests_total"] - before["ghostfleet_ipam_add_requests_total"]
    print(f"nodes {args.nodes} pods {args.pods} running {after['ghostfleet_pods_running']:.0f} waiting {args.pods - after['ghostfleet_ipam_addresses_in_use']:.0f}; cores of the fleet: idle {idle:.3f}, pods waiting {used / spent:.3f}; "
          f"tries/s {asked / spent:.0f}, CPU a try {(used / spent - idle) / asked * spent * 1e6:.1f} us; lateness of leases p50 {quantile(late, lateness(text), .5):.3f} p99 {quantile(late, lateness(text), .99):.3f} s; "
          f"NotReady seen {after['ghostfleet_not_ready_transitions_total']:.0f}; memory {idle_rss >> 20} MiB, with pods {fleet.rss_bytes() >> 20} MiB")
    fleet.stop(seconds=60)
    plane.stop(seconds=60)


if __name__ == "__main__":
    main()
