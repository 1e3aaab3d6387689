// kubelet runs the kubelet of Kubernetes 1.36 as one node, on a container runtime that only pretends, so that what a
// kubelet does for a pod (status, conditions, events, order, timing) can be seen and recorded instead of guessed.
//
// What a container "does" is told by pod annotations, one for each container:
//
//	behavior.ghostfleet.dev/NAME: "exit=1,1,0 after=5s stop=0 stop-after=2s ready=10s live=30s"
//
// exit: exit code of each attempt (the last repeats; absent: runs until stopped); after: how long an attempt runs;
// stop: exit code when stopped; stop-after: how long it takes to stop (over the grace period: killed, 137);
// ready, live, started: exec probes whose first word is ready, live or started begin to succeed (live: to fail) after this time.
// memory, storage: what a running container uses, a quantity or curve(AGE:QUANTITY,...) with straight lines between the points; the
// node's memory is what all use together.
//
// Images whose name holds "missing" cannot be pulled, "slow" take 5 s.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clientset "k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakecri "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
	utilexec "k8s.io/utils/exec"
)

// script is what one container does.
type script struct {
	exits                                  []int32
	after, stopAfter, ready, live, started time.Duration
	stop                                   int32
	memory, storage                        curve
}

// curve is an amount that changes with a container's age.
type curve []point

type point struct {
	age    time.Duration
	amount float64
}

func parseCurve(text string) (c curve) {
	inside, isCurve := strings.CutPrefix(text, "curve(")
	if !isCurve {
		inside = "0s:" + text
	}
	for _, part := range strings.Split(strings.TrimSuffix(inside, ")"), ",") {
		age, amount, _ := strings.Cut(part, ":")
		d, _ := time.ParseDuration(age)
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			continue
		}
		c = append(c, point{d, float64(q.Value())})
	}
	return c
}

func (c curve) at(age time.Duration) uint64 {
	for i, p := range c {
		if age >= p.age {
			continue
		}
		if i == 0 {
			return uint64(p.amount)
		}
		before := c[i-1]
		return uint64(before.amount + (p.amount-before.amount)*float64(age-before.age)/float64(p.age-before.age))
	}
	if len(c) == 0 {
		return 0
	}
	return uint64(c[len(c)-1].amount)
}

func parse(text string) script {
	var s script
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		n, _ := strconv.Atoi(value)
		switch key {
		case "exit":
			for _, x := range strings.Split(value, ",") {
				n, _ := strconv.Atoi(x)
				s.exits = append(s.exits, int32(n))
			}
		case "after":
			s.after = d
		case "stop":
			s.stop = int32(n)
		case "stop-after":
			s.stopAfter = d
		case "ready":
			s.ready = d
		case "live":
			s.live = d
		case "started":
			s.started = d
		case "memory":
			s.memory = parseCurve(value)
		case "storage":
			s.storage = parseCurve(value)
		}
	}
	return s
}

// pretender is a runtime service whose containers follow their scripts. Everything not overridden is the published fake's.
type pretender struct {
	*fakecri.FakeRuntimeService
	mu      sync.Mutex
	scripts map[string]script // by container id
	made    int
}

func (p *pretender) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := p.FakeRuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	if err == nil {
		p.mu.Lock()
		p.made++
		id = p.rename(id, fmt.Sprintf("%s_%d", id, p.made))
		p.scripts[id] = parse(sandboxConfig.Annotations["behavior.ghostfleet.dev/"+config.Metadata.Name])
		p.mu.Unlock()
	}
	return id, err
}

// rename gives a container an id that no other ever had, as every real runtime does.
func (p *pretender) rename(id, fresh string) string {
	p.Lock()
	defer p.Unlock()
	c := p.Containers[id]
	delete(p.Containers, id)
	c.Id = fresh
	p.Containers[fresh] = c
	return fresh
}

// use is what the running containers use.
func (p *pretender) ListContainerStats(_ context.Context, _ *runtimeapi.ContainerStatsFilter) (out []*runtimeapi.ContainerStats, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Lock()
	defer p.Unlock()
	now := time.Now()
	for id, c := range p.Containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		age := now.Sub(time.Unix(0, c.StartedAt))
		value := func(of curve) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: of.at(age)} }
		out = append(out, &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{Id: id, Metadata: c.Metadata, Labels: c.Labels, Annotations: c.Annotations},
			Cpu:        &runtimeapi.CpuUsage{Timestamp: now.UnixNano(), UsageCoreNanoSeconds: &runtimeapi.UInt64Value{}},
			Memory:     &runtimeapi.MemoryUsage{Timestamp: now.UnixNano(), WorkingSetBytes: value(p.scripts[id].memory), UsageBytes: value(p.scripts[id].memory)},
			WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: now.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
				UsedBytes: value(p.scripts[id].storage), InodesUsed: &runtimeapi.UInt64Value{Value: 1}},
		})
	}
	return out, nil
}

func (p *pretender) script(id string) script {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts[id]
}

// finish moves a running container to exited.
func (p *pretender) finish(id string, code int32) {
	p.Lock()
	defer p.Unlock()
	c, ok := p.Containers[id]
	if !ok || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return
	}
	c.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.FinishedAt = time.Now().UnixNano()
	c.ExitCode = code
	c.Reason = "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
}

func (p *pretender) StartContainer(ctx context.Context, id string) error {
	if err := p.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	s := p.script(id)
	if len(s.exits) == 0 {
		return nil
	}
	p.Lock()
	attempt := int(p.Containers[id].Metadata.Attempt)
	p.Unlock()
	code := s.exits[min(attempt, len(s.exits)-1)]
	time.AfterFunc(s.after, func() { p.finish(id, code) })
	return nil
}

func (p *pretender) StopContainer(ctx context.Context, id string, timeout int64) error {
	s := p.script(id)
	wait, code := s.stopAfter, s.stop
	if grace := time.Duration(timeout) * time.Second; wait > grace {
		wait, code = grace, 137
	}
	select {
	case <-ctx.Done(): // a shorter grace period replaces this one
		return ctx.Err()
	case <-time.After(wait):
		p.finish(id, code)
		return nil
	}
}

func (p *pretender) ExecSync(_ context.Context, id string, cmd []string, _ time.Duration) ([]byte, []byte, error) {
	s := p.script(id)
	p.Lock()
	age := time.Since(time.Unix(0, p.Containers[id].StartedAt))
	p.Unlock()
	ok := true
	switch cmd[0] {
	case "ready":
		ok = age >= s.ready
	case "started":
		ok = age >= s.started
	case "live":
		ok = s.live == 0 || age < s.live
	}
	if ok {
		return []byte("fine\n"), nil, nil
	}
	return nil, []byte("not yet\n"), utilexec.CodeExitError{Err: fmt.Errorf("exit status 1"), Code: 1}
}

// images is an image service some of whose images are missing or slow.
type images struct{ *fakecri.FakeImageService }

func (i *images) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, config *runtimeapi.PodSandboxConfig) (string, error) {
	if strings.Contains(image.Image, "missing") {
		return "", status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", image.Image, image.Image, image.Image)
	}
	if strings.Contains(image.Image, "slow") {
		time.Sleep(5 * time.Second)
	}
	return i.FakeImageService.PullImage(ctx, image, auth, config)
}

// groups is a container manager whose pods have control groups to resize: what they hold now is what the pod asked for first.
type groups struct{ cm.ContainerManager }

func (g *groups) NewPodContainerManager() cm.PodContainerManager {
	return &podGroups{g.ContainerManager.NewPodContainerManager()}
}

type podGroups struct{ cm.PodContainerManager }

func (g *podGroups) GetPodCgroupConfig(pod *v1.Pod, _ v1.ResourceName) (*cm.ResourceConfig, error) {
	memory, quota, shares, period := int64(1)<<40, int64(-1), uint64(2), uint64(100000)
	// No lower limit than the one that is wanted: what a whole pod uses of its memory nobody tells.
	if wanted := cm.ResourceConfigForPod(pod, true, period, false, kubeletconfig.NoneMemoryReservationPolicy); wanted.Memory != nil {
		memory = *wanted.Memory
	}
	return &cm.ResourceConfig{Memory: &memory, CPUQuota: &quota, CPUShares: &shares, CPUPeriod: &period}, nil
}

func (g *podGroups) SetPodCgroupConfig(klog.Logger, *v1.Pod, *cm.ResourceConfig) error { return nil }

// machine reports a larger machine than the published fake does.
type machine struct {
	*cadvisortest.Fake
	cores   int
	memory  uint64
	runtime *pretender
	began   time.Time
}

// ContainerInfoV2 knows the whole machine only: what of its memory all containers use.
func (m *machine) ContainerInfoV2(name string, _ cadvisorapiv2.RequestOptions) (map[string]cadvisorapiv2.ContainerInfo, error) {
	if name != "/" {
		return map[string]cadvisorapiv2.ContainerInfo{}, nil
	}
	used := uint64(0)
	stats, _ := m.runtime.ListContainerStats(context.Background(), nil)
	for _, s := range stats {
		used += s.Memory.WorkingSetBytes.Value
	}
	info := cadvisorapiv2.ContainerInfo{Spec: cadvisorapiv2.ContainerSpec{HasMemory: true, Memory: cadvisorapiv2.MemorySpec{Limit: m.memory}}}
	info.Stats = []*cadvisorapiv2.ContainerStats{{Timestamp: time.Now(), Memory: &cadvisorapi.MemoryStats{Usage: used, WorkingSet: min(used, m.memory)}}}
	return map[string]cadvisorapiv2.ContainerInfo{"/": info}, nil
}

// GetDirFsInfo knows no sizes in the first seconds, as on most machines: that is when a kubelet complains of its image filesystem.
func (m *machine) GetDirFsInfo(string) (cadvisorapiv2.FsInfo, error) {
	info, err := m.disk()
	if time.Since(m.began) < 5*time.Second {
		info.Capacity, info.Available = 0, 0
	}
	return info, err
}

func (m *machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := m.Fake.MachineInfo()
	if err == nil {
		info.NumCores, info.MemoryCapacity = m.cores, m.memory
	}
	return info, err
}

func (m *machine) disk() (cadvisorapiv2.FsInfo, error) {
	return cadvisorapiv2.FsInfo{Device: "/dev/pretend", Mountpoint: "/", Capacity: 100 << 30, Available: 90 << 30}, nil
}

func (m *machine) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) { return m.disk() }

func (m *machine) RootFsInfo() (cadvisorapiv2.FsInfo, error) { return m.disk() }

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "credentials of the node (user system:node:NAME, group system:nodes)")
	name := flag.String("name", "kubelet-0", "name of the node")
	port := flag.Int("port", 20250, "port of its HTTPS server")
	cores := flag.Int("cores", 16, "CPUs")
	gib := flag.Uint64("memory-gib", 64, "memory in GiB")
	manifests := flag.String("manifests", "", "folder of the manifests of static pods (default: an empty one)")
	extended := flag.String("extended", "", "extended resources, name=count,...")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "kubelet/v1.36.3 (linux/amd64) kubernetes/0000000"
	config.QPS, config.Burst = 50, 100
	client := clientset.NewForConfigOrDie(config)
	heart := *config
	heart.Timeout, heart.QPS = 10*time.Second, -1
	heartbeats := clientset.NewForConfigOrDie(&heart)

	flags, kubeletConfig := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: *name, KubeletPort: *port, MaxPods: 110})
	// What a kubelet has by default where the hollow one differs.
	kubeletConfig.SyncFrequency.Duration = time.Minute
	kubeletConfig.EnableControllerAttachDetach = true
	kubeletConfig.ClusterDNS = []string{"10.0.0.10"}
	kubeletConfig.EvictionHard = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%"}
	if *manifests != "" {
		kubeletConfig.StaticPodPath = *manifests
	}

	var containers cm.ContainerManager = cm.NewStubContainerManager()
	if *extended != "" {
		list := v1.ResourceList{}
		for _, pair := range strings.Split(*extended, ",") {
			key, value, _ := strings.Cut(pair, "=")
			list[v1.ResourceName(key)] = resource.MustParse(value)
		}
		containers = cm.NewStubContainerManagerWithDevicePluginResource(list)
	}
	containers = &groups{containers}
	runtime := &pretender{FakeRuntimeService: fakecri.NewFakeRuntimeService(), scripts: map[string]script{}}
	runtime.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}
	images := &images{fakecri.NewFakeImageService()}
	images.SetFakeImageSize(500 << 20)
	images.SetFakeFilesystemUsage([]*runtimeapi.FilesystemUsage{{Timestamp: time.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes: &runtimeapi.UInt64Value{Value: 1 << 30}, InodesUsed: &runtimeapi.UInt64Value{Value: 1000}}})

	var runtimeService internalapi.RuntimeService = runtime
	node := kubemark.NewHollowKubelet(flags, kubeletConfig, client, heartbeats,
		&machine{&cadvisortest.Fake{NodeName: *name}, *cores, *gib << 30, runtime, time.Now()}, images, runtimeService, containers)
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	node.KubeletDeps.Recorder = broadcaster.NewRecorder(legacyscheme.Scheme, v1.EventSource{Component: "kubelet", Host: *name})
	node.KubeletDeps.ProbeManager = nil // the real one
	node.Run(context.Background())
}
