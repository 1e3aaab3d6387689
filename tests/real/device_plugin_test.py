#!/usr/bin/env python3
"""Device plugins over their sockets, one side of each pair being Kubernetes' own and unmodified:

- our plugins (ghostfleet device-plugin) with the device manager of a kubelet 1.36 (devicemanager/main.go);
- Kubernetes' sample device plugin with our node (ghostfleet agent --device-plugin-dir).

Both of Kubernetes' programs know no other place than /var/lib/kubelet/device-plugins: they run in a mount namespace of their own, where that is a
folder of the test. Without the right to make one the test is skipped.

usage: device_plugin_test.py GHOSTFLEET
"""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile

from cluster import SKIPPED, Process, program, ready_nodes, wait_for
from embedded import EmbeddedCluster

RESOURCE = "example.com/resource"  # what the sample plugin has, two of it

# In the namespace: FOLDER is where the programs expect their sockets.
ENTER = 'mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/kubelet/device-plugins && mount --bind "$0" /var/lib/kubelet/device-plugins && exec "$@"'


def unshare():
    """The command that makes a mount namespace here, or None."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/var/lib"], capture_output=True).returncode == 0:
            return command
    return None


class RealManager:
    """The kubelet's device manager with its sockets in `folder`."""

    def __init__(self, folder, enter):
        self.child = subprocess.Popen([*enter, "sh", "-c", ENTER, folder, program("devicemanager")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
        self.rest, self.counts, self.pods = b"", {}, {}

    def look(self):
        while select.select([self.child.stdout], [], [], 0)[0]:
            piece = os.read(self.child.stdout.fileno(), 65536)
            if not piece:
                raise AssertionError("the device manager ended")
            self.rest += piece
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "pod" in said:
                self.pods[said["pod"]] = said
            else:
                self.counts = said

    def shows(self, resource, capacity, allocatable):
        def now():
            self.look()
            return (self.counts.get("capacity", {}).get(resource), self.counts.get("allocatable", {}).get(resource)) == (capacity, allocatable)
        wait_for(f"{resource}: capacity {capacity}, allocatable {allocatable}; last {self.counts}", now, 60)

    def allocate(self, pod, resource, count):
        self.child.stdin.write(f"allocate {pod} {resource} {count}\n".encode())
        self.child.stdin.flush()

        def answered():
            self.look()
            return self.pods.get(pod)
        return wait_for(f"allocation of {pod}", answered, 30)

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


def our_plugins_with_a_real_manager(ghostfleet, enter):
    with tempfile.TemporaryDirectory(prefix="gf-plugins-") as folder:
        broken = os.path.join(folder, "broken.txt")
        plugins = [Process(kind, [ghostfleet, "device-plugin", kind, "--count", count, "--node-name", "n1", "--dir", folder, "--unhealthy-file", broken], folder).start()
                   for kind, count in (("nvidia", "4"), ("neuron", "2"), ("efa", "2"))]
        manager = RealManager(folder, enter)
        try:
            manager.shows("nvidia.com/gpu", 4, 4)
            manager.shows("aws.amazon.com/neuron", 2, 2)
            manager.shows("aws.amazon.com/neuroncore", 4, 4)
            manager.shows("vpc.amazonaws.com/efa", 2, 2)
            two = manager.allocate("two", "nvidia.com/gpu", 2)
            assert len(two["devices"]) == 2 and all(d.startswith("GPU-") for d in two["devices"]), two
            assert sorted(two["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == two["devices"], two
            refused = manager.allocate("three", "nvidia.com/gpu", 3)
            assert refused.get("error") == "requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2", refused
            core = manager.allocate("core", "aws.amazon.com/neuroncore", 1)
            assert len(core["devices"]) == 1, core
            with open(broken, "w") as f:
                f.write("nvidia.com/gpu=0:79; vpc.amazonaws.com/efa=1\n")
            manager.shows("nvidia.com/gpu", 4, 3)
            manager.shows("vpc.amazonaws.com/efa", 2, 1)
            os.remove(broken)
            manager.shows("vpc.amazonaws.com/efa", 2, 2)  # a GPU stays Unhealthy until its plugin restarts
            manager.shows("nvidia.com/gpu", 4, 3)
            plugins[0].stop(signal.SIGKILL)
            manager.shows("nvidia.com/gpu", 4, 0)
            plugins[0].start()
            manager.shows("nvidia.com/gpu", 4, 4)
            # The kubelet starts again: it removes all sockets, and the plugins come back by themselves.
            manager.stop()
            manager = RealManager(folder, enter)
            manager.shows("nvidia.com/gpu", 4, 4)
            manager.shows("aws.amazon.com/neuroncore", 4, 4)
            manager.shows("vpc.amazonaws.com/efa", 2, 2)
            for plugin in plugins:
                assert plugin.stop() == 0, plugin.tail()
        finally:
            manager.stop()
            for plugin in plugins:
                plugin.stop()
    print("our plugins with a kubelet's device manager: ok", flush=True)


def pod(name, count):
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"limits": {RESOURCE: str(count)}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [container]}}


class AgentTest:
    """Our node with the sample device plugin, as it is."""

    def __init__(self, cluster, ghostfleet, enter):
        self.c, self.folder = cluster, cluster.path("device-plugins")
        self.agent = cluster.add("agent", [ghostfleet, "agent", "--kubeconfig", cluster.kubeconfig, "--node-name", "n1", "--capacity", "cpu=16,memory=64Gi,pods=110",
                                           "--device-plugin-dir", self.folder], env={"GHOSTFLEET_HOME": cluster.path("home")})
        wait_for("node Ready", lambda: ready_nodes(cluster.items("/api/v1/nodes")) == 1, 60)
        self.plugin = Process("sample-plugin", [*enter, "sh", "-c", ENTER, self.folder, program("sample-device-plugin")], cluster.dir)

    def shows(self, capacity, allocatable):
        def now():
            status = self.c.get("/api/v1/nodes/n1")["status"]
            return (status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)) == (capacity, allocatable)
        wait_for(f"{RESOURCE}: capacity {capacity}, allocatable {allocatable}", now, 60)

    def phase(self, name, phase):
        def now():
            status = (self.c.get(f"/api/v1/namespaces/default/pods/{name}") or {}).get("status", {})
            return status if status.get("phase") == phase else None
        return wait_for(f"pod {name} {phase}", now, 60)

    def held(self, status):
        """The devices that a pod's status names, with their health."""
        told = status["containerStatuses"][0].get("allocatedResourcesStatus", [])
        return {r["resourceID"]: r["health"] for one in told if one["name"] == RESOURCE for r in one["resources"]}

    def health(self, name, health):
        wait_for(f"devices of {name} {health}", lambda: set(self.held(self.phase(name, "Running")).values()) == {health}, 60)

    def run(self):
        self.plugin.start()
        self.shows("2", "2")
        self.c.post("/api/v1/namespaces/default/pods", pod("one", 1))
        held = self.held(self.phase("one", "Running"))
        assert len(held) == 1 and set(held) <= {"Dev-1", "Dev-2"}, held
        with open(os.path.join(self.folder, "kubelet_internal_checkpoint")) as f:
            entries = json.load(f)["Data"]["PodDeviceEntries"]
        assert [(e["ContainerName"], e["ResourceName"], e["DeviceIDs"]) for e in entries] == [("c", RESOURCE, {"-1": list(held)})], entries
        self.c.post("/api/v1/namespaces/default/pods", pod("two", 2))
        refused = self.phase("two", "Failed")
        assert refused["reason"] in ("UnexpectedAdmissionError", "OutOfexample.com/resource"), refused
        # The plugin dies: nothing can be had, what runs runs on.
        self.plugin.stop(signal.SIGKILL)
        self.shows("2", "0")
        self.health("one", "Unhealthy")
        self.plugin.start()
        self.shows("2", "2")
        self.health("one", "Healthy")
        # The agent starts again: the plugin notices, the pod keeps its device.
        assert self.agent.stop() == 0, self.agent.tail()
        self.agent.start()
        self.shows("0", "0")
        self.shows("2", "2")
        self.health("one", "Healthy")
        assert set(self.held(self.phase("one", "Running"))) == set(held)
        self.plugin.stop()


def our_node_with_the_sample_plugin(ghostfleet, enter):
    with EmbeddedCluster(ghostfleet) as c:
        AgentTest(c, ghostfleet, enter).run()
    print("our node with the sample device plugin: ok", flush=True)


def main():
    ghostfleet = sys.argv[1]
    missing = [n for n in ("devicemanager", "sample-device-plugin") if not program(n)]
    enter = unshare()
    if missing or not enter:
        print(f"skipped: {', '.join(missing) + ' not found (scripts/setup --real)' if missing else 'no mount namespace can be made here'}", flush=True)
        sys.exit(1 if missing and os.environ.get("GHOSTFLEET_REAL_BIN") else SKIPPED)
    our_plugins_with_a_real_manager(ghostfleet, enter)
    our_node_with_the_sample_plugin(ghostfleet, enter)


if __name__ == "__main__":
    main()
