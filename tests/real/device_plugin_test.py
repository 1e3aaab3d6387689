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

from cluster import SKIPPED, Process, program, wait_for
from embedded import EmbeddedCluster

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


def main():
    ghostfleet = sys.argv[1]
    missing = [n for n in ("devicemanager", "sample-device-plugin") if not program(n)]
    enter = unshare()
    if missing or not enter:
        print(f"skipped: {', '.join(missing) + ' not found (scripts/setup --real)' if missing else 'no mount namespace can be made here'}", flush=True)
        sys.exit(1 if missing and os.environ.get("GHOSTFLEET_REAL_BIN") else SKIPPED)
    our_plugins_with_a_real_manager(ghostfleet, enter)


if __name__ == "__main__":
    main()
