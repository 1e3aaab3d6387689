// devicemanager runs the device manager of a kubelet 1.36, alone: it serves kubelet.sock in /var/lib/kubelet/device-plugins, so that a
// device plugin can be tried against the real thing. (It knows no other place: give it a mount namespace where that folder is another.)
//
// It prints a line of JSON whenever what the Node would show changes: {"capacity":{...},"allocatable":{...}}.
// Each line of its input is "allocate POD RESOURCE COUNT", answered by {"pod":...,"devices":[...],"envs":{...}} or {"pod":...,"error":...}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

type always struct{}

func (always) AddSource(string) {}
func (always) AllReady() bool   { return true }

type counts struct {
	Capacity    map[string]int64 `json:"capacity"`
	Allocatable map[string]int64 `json:"allocatable"`
}

type allocation struct {
	Pod     string            `json:"pod"`
	Devices []string          `json:"devices,omitempty"`
	Envs    map[string]string `json:"envs,omitempty"`
	Error   string            `json:"error,omitempty"`
}

var (
	pods  []*v1.Pod
	mutex sync.Mutex
)

func numbers(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, quantity := range list {
		out[string(name)] = quantity.Value()
	}
	return out
}

func say(what any) {
	mutex.Lock()
	defer mutex.Unlock()
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func allocate(manager *devicemanager.ManagerImpl, name, res string, count string) (out allocation) {
	out.Pod = name
	quantity, err := resource.ParseQuantity(count)
	if err != nil {
		out.Error = err.Error()
		return
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceName(res): quantity}, Requests: v1.ResourceList{v1.ResourceName(res): quantity}}}}}}
	if err := manager.Allocate(pod, &pod.Spec.Containers[0]); err != nil {
		out.Error = err.Error()
		return
	}
	mutex.Lock()
	pods = append(pods, pod)
	mutex.Unlock()
	options, err := manager.GetDeviceRunContainerOptions(context.Background(), pod, &pod.Spec.Containers[0])
	if err != nil {
		out.Error = err.Error()
		return
	}
	if options == nil {
		out.Error = "no plugin of that resource has registered"
		return
	}
	out.Envs = map[string]string{}
	for _, env := range options.Envs {
		out.Envs[env.Name] = env.Value
	}
	for _, devices := range manager.GetDevices(string(pod.UID), "c") {
		for id := range devices {
			out.Devices = append(out.Devices, id)
		}
	}
	sort.Strings(out.Devices)
	return
}

func main() {
	manager, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	if err != nil {
		panic(err)
	}
	active := func() []*v1.Pod {
		mutex.Lock()
		defer mutex.Unlock()
		return append([]*v1.Pod(nil), pods...)
	}
	if err := manager.Start(klog.TODO(), active, always{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		panic(err)
	}
	go func() {
		last := counts{}
		for ; ; time.Sleep(100 * time.Millisecond) {
			capacity, allocatable, _ := manager.GetCapacity()
			now := counts{numbers(capacity), numbers(allocatable)}
			if !reflect.DeepEqual(now, last) {
				say(now)
			}
			last = now
		}
	}()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		if len(words) != 4 || words[0] != "allocate" {
			say(allocation{Error: "allocate POD RESOURCE COUNT is expected"})
			continue
		}
		say(allocate(manager, words[1], words[2], words[3]))
	}
}
