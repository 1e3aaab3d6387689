#!/usr/bin/env python3
"""Device plugins of a fleet's nodes, of groups with different settings, over a restart of the fleet (docs/devices.md).

usage: devices_test.py GHOSTFLEET
"""
import os
import subprocess
import sys

from case_support import NODES, PODS, Case, condition
from cases_devices import UNHEALTHY, annotate, ids, shown, wants
from plane import Plane

FLEET = """apiVersion: ghostfleet.dev/v1alpha1
kind: Fleet
metadata: {name: dev}
spec:
  groups:
  - {name: mig, count: 2, profile: p5.48xlarge, devices: {mig: {strategy: mixed, layout: {1g.10gb: 3, 2g.20gb: 2}}}}
  - {name: shared, count: 1, profile: p5.48xlarge, devices: {timeSlicing: {replicas: 4, renameByDefault: true}}}
  - {name: neuron, count: 1, profile: trn1.32xlarge}
"""
MIG, SHARED, NEURON, CORE = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"


def held(t):
    """Node, pod and ids of every pod that holds devices."""
    return {p["metadata"]["name"]: (p["spec"]["nodeName"], sorted(ids(p))) for p in t.items(PODS) if ids(p)}


def ready(t, count):
    nodes = t.items(NODES)
    return len(nodes) == count and all(condition(n, "Ready")[0] == "True" for n in nodes)


def check_fleet(t, file):
    fleet = t.start("fleet", "-f", file)
    t.wait("nodes Ready", lambda: ready(t, 4), 40)
    assert shown(t, "dev-mig-0", MIG) == ("24", "24") and shown(t, "dev-mig-0", "nvidia.com/gpu") == (None, None)
    assert shown(t, "dev-shared-0", SHARED) == ("32", "32")
    wanted = [(f"mig-{n}", MIG, 8) for n in range(6)] + [(f"neuron-{n}", NEURON, 4) for n in range(3)] + [("core", CORE, 2), ("shared", SHARED, 3)]
    for name, resource, count in wanted:
        t.post(PODS, wants(name, resource, count))
    t.wait("pods Ready", lambda: all(t.running(name) for name, _, _ in wanted), 40)
    before = held(t)
    everything = [(node, device) for node, devices in before.values() for device in devices]
    assert len(everything) == len(set(everything)) == 6 * 8 + 3 * 4 + 2 + 3, before
    chips = {device for name, (_, devices) in before.items() if name.startswith("neuron-") for device in devices}
    assert not chips & {f"neuron-{int(core.split('-')[1]) // 2}" for core in before["core"][1]}, before
    assert len({device.split("::")[0] for device in before["shared"][1]}) == 3, before["shared"]
    annotate(t, "dev-mig-0", UNHEALTHY, "nvidia.com/gpu=0,1")
    annotate(t, "dev-neuron-0", UNHEALTHY, f"{NEURON}=0")
    t.wait("six parts of two GPUs are gone", lambda: shown(t, "dev-mig-0", MIG) == ("24", "18"), 15)
    t.wait("a chip and its cores are gone", lambda: shown(t, "dev-neuron-0", CORE) == ("32", "30") and shown(t, "dev-neuron-0", NEURON) == ("16", "15"), 15)
    fleet.kill()
    fleet.wait()
    t.post(PODS, wants("late", CORE, 2))
    second = t.start("fleet", "-f", file)
    t.wait("a pod of the time between runs", lambda: t.running("late"), 40)
    after = held(t)
    assert {name: after[name] for name in before} == before
    assert not set(after["late"][1]) & set(before["core"][1])
    assert shown(t, "dev-mig-0", MIG) == ("24", "18")
    annotate(t, "dev-neuron-0", UNHEALTHY, None)
    t.wait("Neuron devices heal", lambda: shown(t, "dev-neuron-0", CORE) == ("32", "32"), 15)
    typo = UNHEALTHY.replace("unhealthy", "unhelthy")
    annotate(t, "dev-shared-0", typo, "nvidia.com/gpu=0")
    t.wait("a mistyped annotation is told", lambda: f"annotation {typo}: nothing reads it" in open(second.log).read(), 15)


def check_bad_settings(ghostfleet, t):
    file = os.path.join(t.p.home, "bad.yaml")
    for text, complaint in (("mig: {strategy: single, layout: {1g.5gb: 7}}\n", 'mig profile "1g.5gb": h100 has 1g.10gb'), ("migs: 1\n", "migs")):
        with open(file, "w") as f:
            f.write(text)
        done = subprocess.run([ghostfleet, "agent", "--kubeconfig", t.p.kubeconfig, "--node-name", "bad", "--profile", "p5.48xlarge", "--devices", file], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and complaint in done.stderr, (done.returncode, done.stderr)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Plane(sys.argv[1]) as plane:
        t = Case("devices", plane)
        try:
            file = os.path.join(plane.home, "fleet.yaml")
            with open(file, "w") as f:
                f.write(FLEET)
            check_bad_settings(sys.argv[1], t)
            check_fleet(t, file)
        finally:
            t.end()
    print("ok")


if __name__ == "__main__":
    main()
