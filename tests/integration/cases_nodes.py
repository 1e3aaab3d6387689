"""G2: registration, heartbeats, restarts and credentials of a node agent."""
import http.client
import json
import os
import signal
import ssl
import subprocess
import time

from case_support import NODES, PATHS, PODS, SHORT_GRACE, Proxy, case, condition, documents, what_stays


@case("C014")
def c014(t):
    """The Node manifests that people write."""
    texts = documents("C014.yaml")
    for text in texts:
        t.post(NODES, text.encode(), "application/yaml")
    node = lambda name: t.get(f"{NODES}/{name}")
    for part in ("capacity", "allocatable"):
        assert node("ints")["status"][part] == {"cpu": "32", "memory": "256Gi", "pods": "110"}, node("ints")["status"][part]
    assert not node("copied")["metadata"]["creationTimestamp"].startswith("2024"), node("copied")["metadata"]
    ints = next(text for text in texts if "name: ints" in text).replace("cpu: 32", "cpu: 64")
    t.p.request("PATCH", f"{NODES}/ints?fieldManager=user&force=true", ints.encode(), "application/apply-patch+yaml")
    assert node("ints")["status"]["capacity"]["cpu"] == "32", "a status in the main resource counts when a node is created, not later"
    for name in ("bare", "ints", "nullcond", "copied"):
        t.agent(name, capacity="cpu=32,memory=256Gi,pods=110")
    t.wait("all Ready", lambda: all(t.node_is(n, "True") for n in ("bare", "ints", "nullcond", "copied")), 40)
    bare = node("bare")["status"]
    assert bare["capacity"]["cpu"] == "32" and bare["addresses"] and bare["nodeInfo"]["kubeletVersion"], bare
    conditions = {c["type"]: c for c in node("nullcond")["status"]["conditions"]}
    assert conditions["GpuDbeProblem"]["reason"] == "NoProblem", conditions
    ready = conditions["Ready"]
    assert ready["lastHeartbeatTime"] and ready["lastTransitionTime"] and ready["message"] != "posted by the user", ready
    assert node("ints")["spec"]["taints"] == [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}], node("ints")["spec"]


@case("C016")
def c016(t):
    """The fleet is killed and starts again while the server refuses to list pods for 20 s, then answers slowly."""
    proxy = Proxy(t.p)
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {"token": t.p.token}}],
              "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{proxy.server_port}"}}], "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}
    path = os.path.join(t.p.home, "proxy.kubeconfig")
    with open(path, "w") as f:
        json.dump(config, f)
    words = ("fleet", "--nodes", "5", "--profile", "m5.large", "--name", "five")
    fleet = t.start(*words, kubeconfig=path)
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == 5, 40)
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "registry.example.test/web:1"}]}}
    code, answer = t.p.request("POST", PATHS["Deployment"], {"metadata": {"name": "web"}, "spec": {"replicas": 50, "selector": {"matchLabels": {"app": "web"}}, "template": pod}})
    assert code == 201, answer
    t.wait("50 pods Ready", lambda: t.count("app%3Dweb") == 50, 40)
    before = {what_stays(p)[0]: what_stays(p) for p in t.items(PODS)}
    deletes = proxy.deletes
    fleet.kill()
    fleet.wait()
    proxy.lists = "refuse"
    t.start(*words, kubeconfig=path)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert t.count("app%3Dweb") == 50 and len(t.items(PODS)) == 50, "pods changed while they could not be listed"
        time.sleep(0.5)
    assert proxy.refused > 0, "nobody asked for the pods"
    proxy.lists = "slow"
    t.wait("the fleet runs pods again", lambda: scale_and_look(t, 51), 60)
    after = {what_stays(p)[0]: what_stays(p) for p in t.items(PODS)}
    assert all(after.get(uid) == what for uid, what in before.items()), "a pod was lost, restarted or got another address"
    assert len(after) == 51 and proxy.deletes == deletes, (len(after), proxy.deletes)


def scale_and_look(t, replicas):
    t.p.request("PATCH", PATHS["Deployment"] + "/web", {"spec": {"replicas": replicas}}, "application/merge-patch+json")
    return t.count("app%3Dweb") == replicas


def lease_fleet(t, seconds, nodes=20):
    path = os.path.join(t.p.home, "fleet.yaml")
    with open(path, "w") as f:
        f.write(f"apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: f}}\nspec:\n  leaseDurationSeconds: {seconds}\n  groups:\n  - {{name: g, count: {nodes}, profile: m5.large}}\n")
    t.start("fleet", "-f", path)
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == nodes, 40)


def flaps(watch):
    """Nodes that became Unknown, with the reason, and those of them that came back."""
    lost, back = {}, set()
    for _, _, node in list(watch.events):
        name, ready = node["metadata"]["name"], next((c for c in node["status"]["conditions"] if c["type"] == "Ready"), {})
        if ready.get("status") == "Unknown":
            lost[name] = ready["reason"]
        elif ready.get("status") == "True" and name in lost:
            back.add(name)
    return lost, back


def flaps_of_ten_minutes(t):
    watch, end = t.watch(NODES), time.monotonic() + 600
    t.wait("the time is over", lambda: time.monotonic() > end, 660)
    return flaps(watch)


@case("C017", "--node-monitor-grace-period", "10s")
def c017(t):
    """A grace period as long as the time between renewals: nodes flap, and it is shown."""
    lease_fleet(t, 40)
    watch = t.watch(NODES)
    t.wait("nodes are lost and come back", lambda: len(flaps(watch)[1]) >= 3, 120)
    assert set(flaps(watch)[0].values()) == {"NodeStatusUnknown"}, flaps(watch)
    lease = t.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/f-g-0")["spec"]
    assert lease["holderIdentity"] == "f-g-0" and len(lease["renewTime"].split(".")[1]) == len("123456Z"), lease


@case("C017A", by_hand=True)
def c017a(t):
    """The usual grace period: ten minutes without a change."""
    lease_fleet(t, 40)
    assert flaps_of_ten_minutes(t) == ({}, set())


@case("C017B", "--node-monitor-grace-period", "10s", by_hand=True)
def c017b(t):
    """A grace period of 10 s: most nodes flap within ten minutes."""
    lease_fleet(t, 40)
    lost, back = flaps_of_ten_minutes(t)
    assert len(lost) > 10 and set(lost.values()) == {"NodeStatusUnknown"} and len(back) > 10, (lost, back)


@case("C017C", "--node-monitor-grace-period", "10s", by_hand=True)
def c017c(t):
    """Leases of 12 s, renewed every 3 s, against a grace period of 10 s: no change in ten minutes."""
    lease_fleet(t, 12)
    assert flaps_of_ten_minutes(t) == ({}, set())


@case("C018", *SHORT_GRACE)
def c018(t):
    """A condition of somebody else outlives heartbeats, and a time as Unknown."""
    t.create("C018.yaml")
    agent = t.agent()
    t.wait("node Ready", lambda: t.node_is("n-a1", "True"), 40)
    foreign = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "message": "t", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    t.patch(f"{NODES}/n-a1/status?fieldManager=detector", {"status": {"conditions": [foreign]}}, "strategic")
    mine = lambda: [c for c in t.get(f"{NODES}/n-a1")["status"]["conditions"] if c["type"] == foreign["type"]]
    agent.send_signal(signal.SIGSTOP)
    t.wait("node Unknown", lambda: t.node_is("n-a1", "Unknown"), 60)
    node = t.get(f"{NODES}/n-a1")
    assert {c["type"] for c in node["status"]["conditions"] if c["status"] == "Unknown"} == {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
    assert [{k: c.get(k) for k in foreign} for c in mine()] == [foreign], mine()
    agent.send_signal(signal.SIGCONT)
    t.wait("node Ready again", lambda: t.node_is("n-a1", "True"), 20)
    node = t.get(f"{NODES}/n-a1")
    assert [{k: c.get(k) for k in foreign} for c in mine()] == [foreign], mine()
    types = [c["type"] for c in node["status"]["conditions"]]
    addresses = [(a["type"], a["address"]) for a in node["status"]["addresses"]]
    assert len(types) == len(set(types)) and len(addresses) == len(set(addresses)), (types, addresses)
    managers = {m["manager"] for m in node["metadata"]["managedFields"] if m.get("subresource") == "status"}
    assert "detector" in managers and len(managers) >= 2, managers


@case("C020")
def c020(t):
    """Two nodes of one process with a port each: a log and /pods come from the node that is asked, another node's pod is not found."""
    t.start("fleet", "--nodes", "2", "--name", "n", "--node-name", "n-a{index}", "--kubelet-server", "ports", "--kubelet-address", "127.0.0.1", "--kubelet-port", "0")
    t.wait("nodes Ready", lambda: all(condition(t.get(f"/api/v1/nodes/n-a{i}"), "Ready")[0] == "True" for i in range(2)), 40)
    t.create("C020.yaml")
    t.wait("pods Ready", lambda: t.running("a") and t.running("b"), 40)
    ports = [t.get(f"/api/v1/nodes/n-a{i}")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for i in range(2)]
    assert ports[1] == ports[0] + 1, ports
    for name in ("a", "b"):
        t.wait(f"log of {name}", lambda: t.p.request("GET", f"{PODS}/{name}/log", raw=True)[1].startswith(f"{name} says 0\n{name} says 1\n".encode()), 20)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def ask(port, path):
        node = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
        node.request("GET", path, headers={"Authorization": "Bearer " + t.p.token})
        answer = node.getresponse()
        return answer.status, answer.read().decode()

    code, text = ask(ports[0], "/containerLogs/default/b/c")
    assert (code, text) == (404, 'pod "b" does not exist'), (code, text)
    for port, name in zip(ports, "ab"):
        code, text = ask(port, "/pods")
        assert code == 200 and [p["metadata"]["name"] for p in json.loads(text)["items"]] == [name], (code, text[:300])


def run_agent(t, kubeconfig, node, seconds="60s"):
    path = os.path.join(t.p.home, f"{node}.kubeconfig")
    with open(path, "w") as f:
        f.write(kubeconfig)
    command = [t.p.ghostfleet, "agent", "--kubeconfig", path, "--node-name", node, "--capacity", "cpu=1,memory=1Gi,pods=10", "--for", seconds]
    log = open(os.path.join(t.p.home, f"{node}.log"), "w+")
    child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**t.p.env, "GHOSTFLEET_HOME": os.path.join(t.p.home, node)})
    child.log = log.name
    t.children.append(child)
    return child


def output(child):
    """What it said, once it has ended."""
    child.wait(60)
    with open(child.log) as f:
        return f.read()


@case("C022")
def c022(t):
    """Kubeconfigs as people have them: those that are right bring a node up, those that are wrong are named."""
    k = dict(zip((f"k{i}" for i in range(1, 9)), documents("C022.yaml")))
    with open(t.p.kubeconfig) as f:
        ca = f.read().split("certificate-authority-data: ")[1].split()[0]
    wrapped = "".join(f"\n      {ca[i:i + 64]}" for i in range(0, len(ca), 64))
    for name, text in k.items():
        text = text.replace("https://127.0.0.1:6443", t.p.server).replace("not-a-real-token", t.p.token)
        if name in ("k3", "k7", "k8"):
            text = text.replace(f"server: '{t.p.server}'", f"server: '{t.p.server}', certificate-authority-data: {ca}")
        k[name] = text.replace("\n      AAAA\n      BBBB", wrapped)
    good = {n: run_agent(t, k[n], n) for n in ("k2", "k3", "k5", "k7", "k8")}
    k["k1"] = k["k1"].replace("https://api.example.test:6443", t.p.server)  # no CA: only the system's, which does not know ours
    bad = {n: run_agent(t, k[n], n, "5s") for n in ("k1", "k4", "k6")}
    bad["k9"] = run_agent(t, k["k7"].replace("kubernetes.default.svc", "other.example.test"), "k9", "5s")
    wanted = {"k1": "certificate", "k4": "current-context", "k6": "certificate-authority-data", "k9": "other.example.test"}
    for name, child in bad.items():
        out = output(child)
        assert child.returncode != 0 and wanted[name] in out, (name, child.returncode, out)
        assert t.p.token not in out and "not-base64" not in out, (name, out)
    t.wait("the nodes of the good ones are Ready", lambda: all(t.node_is(n, "True") for n in good), 40)
    assert t.p.ready_nodes() == len(good)


HELPER = """#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >> "$0.calls"
expires=$(date -u -d '+10 seconds' +%Y-%m-%dT%H:%M:%SZ)
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/VERSION","status":{"token":"TOKEN","expirationTimestamp":"'$expires'"}}'
"""


@case("C023")
def c023(t):
    """A token from a command: asked for at the start and when it expires, not for each request."""
    with open(t.p.kubeconfig) as f:
        ca = f.read().split("certificate-authority-data: ")[1].split()[0]
    text = documents("C023.yaml")[0].replace("https://127.0.0.1:6443'", f"{t.p.server}', certificate-authority-data: {ca}")
    for version in ("v1", "v1beta1"):
        helper = os.path.join(t.p.home, f"helper-{version}")
        with open(helper, "w") as f:
            f.write(HELPER.replace("TOKEN", t.p.token).replace("VERSION", version))
        os.chmod(helper, 0o755)
        run_agent(t, text.replace("client.authentication.k8s.io/v1", f"client.authentication.k8s.io/{version}").replace("./token-helper.sh", helper), f"exec-{version}", "120s")
    begin = time.monotonic()
    nodes = ("exec-v1", "exec-v1beta1")
    t.wait("nodes Ready", lambda: all(t.node_is(n, "True") for n in nodes), 40)
    since = [condition(t.get(f"{NODES}/{n}"), "Ready") for n in nodes]
    t.wait("a while", lambda: time.monotonic() - begin > 45, 60)
    for node in nodes:
        with open(os.path.join(t.p.home, node.replace("exec-", "helper-") + ".calls")) as f:
            calls = f.read().splitlines()
        assert 3 <= len(calls) <= 3 + (time.monotonic() - begin) / 5, (node, len(calls))
        info = json.loads(calls[0])
        assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False, info
    assert [condition(t.get(f"{NODES}/{n}"), "Ready") for n in nodes] == since
    child = run_agent(t, text, "no-helper", "5s")
    out = output(child)
    assert child.returncode != 0 and "token-helper.sh" in out, out
