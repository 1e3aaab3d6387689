#include "agent/dra/slice_publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kube/api/json.h"

namespace ghostfleet::agent {

namespace {
constexpr std::string_view kSlices = "/apis/resource.k8s.io/v1/resourceslices";
// Between tries, as a kubelet that removes slices waits.
constexpr Duration kFirstRetry = std::chrono::seconds(1);
constexpr Duration kLongestRetry = std::chrono::minutes(5);
}  // namespace

SlicePublisher::SlicePublisher(const DraDevices& devices, SliceNode node, DriverFaults faults, Task task,
                               Options options)
    : devices_(devices), node_(std::move(node)), faults_(std::move(faults)), task_(task), options_(options) {
  switch (task) {
    case Task::kStart:
      step_ = options.collection ? Step::kWipe : options.existing ? Step::kClear : Step::kCreate;
      generation_ = 1;
      break;
    case Task::kUpdate: step_ = Step::kRead; break;
    case Task::kRemove: step_ = options.collection ? Step::kWipe : Step::kDrop; break;
  }
}

// Of any set of faults.
uint32_t SlicePublisher::most_slices() const { return slice_count(devices_, DriverFaults{{DeviceFault{}}, false}); }

SliceRequest SlicePublisher::next() const {
  using Verb = SliceRequest::Verb;
  const std::string target = fmt::format("{}/{}", kSlices, slice_name(devices_, node_.name, slice_));
  switch (step_) {
    case Step::kWipe: {
      std::string selector = "spec.nodeName%3D" + node_.name;
      if (task_ == Task::kRemove) selector = fmt::format("spec.driver%3D{}%2C{}", driver_name(devices_.kind), selector);
      return {Verb::kDelete, fmt::format("{}?fieldSelector={}", kSlices, selector), {}};
    }
    case Step::kClear:
    case Step::kDrop: return {Verb::kDelete, target, {}};
    case Step::kCreate:
      return {Verb::kPost, std::string(kSlices), render_slice(devices_, node_, faults_, generation_, slice_)};
    case Step::kRead: return {Verb::kGet, target, {}};
    case Step::kReplace:
      return {Verb::kPut, target, render_slice(devices_, node_, faults_, generation_, slice_, version_)};
    case Step::kDone: break;
  }
  return {};
}

void SlicePublisher::create_next(uint32_t slice) {
  slice_ = slice;
  step_ = slice < slice_count(devices_, faults_) ? (options_.existing ? Step::kClear : Step::kCreate) : Step::kDone;
}

// The slices that are there, then those there may be of a time with other faults.
void SlicePublisher::update_next(uint32_t slice) {
  slice_ = slice;
  step_ = slice < slice_count(devices_, faults_) ? Step::kRead : Step::kDrop;
  if (slice >= most_slices()) step_ = Step::kDone;
}

void SlicePublisher::drop_next(uint32_t slice) {
  slice_ = slice;
  if (slice >= most_slices()) step_ = Step::kDone;
}

void SlicePublisher::read(std::string_view body) {
  const auto object = kube::parse_json(body);
  version_ = object.ok() ? kube::get_string(*object, "metadata.resourceVersion") : std::string_view();
  if (generation_ == 0 && object.ok()) generation_ = kube::get_int(*object, "spec.pool.generation") + 1;
}

// What the step is done with; everything else is tried again.
bool SlicePublisher::is_answer(Step step, int status) {
  if (status >= 200 && status < 300) return true;
  switch (step) {
    case Step::kWipe:
    case Step::kClear:
    case Step::kDrop:
    case Step::kRead: return status == 404;
    case Step::kCreate: return status == 409;
    case Step::kReplace: return status == 409 || status == 404;
    case Step::kDone: break;
  }
  return false;
}

void SlicePublisher::succeed(int status, std::string_view body) {
  switch (step_) {
    case Step::kWipe: step_ = task_ == Task::kRemove ? Step::kDone : Step::kCreate; return;
    case Step::kClear: step_ = Step::kCreate; return;
    case Step::kCreate:
      if (status == 409) {  // of an earlier Node of that name, or made by a request whose answer was lost
        step_ = Step::kClear;
      } else if (task_ == Task::kUpdate) {
        update_next(slice_ + 1);
      } else {
        create_next(slice_ + 1);
      }
      return;
    case Step::kRead:
      if (status != 404) read(body);
      generation_ = std::max<int64_t>(generation_, 1);
      step_ = status == 404 ? Step::kCreate : Step::kReplace;
      return;
    case Step::kReplace:
      if (status == 409 || status == 404) {
        step_ = Step::kRead;
      } else {
        update_next(slice_ + 1);
      }
      return;
    case Step::kDrop: drop_next(slice_ + 1); return;
    case Step::kDone: return;
  }
}

Duration SlicePublisher::answered(int status, std::string_view body, Duration retry_after, Rng& rng) {
  refused_.clear();
  if (is_answer(step_, status)) {
    tries_ = 0;
    succeed(status, body);
    return Duration(0);
  }
  if (status == 403 || status == 404 || status == 400 || status == 422) {
    const auto object = kube::parse_json(body);
    refused_ = object.ok() ? std::string(kube::get_string(*object, "message")) : std::string();
    if (refused_.empty()) refused_ = fmt::format("the server answered {}", status);
  }
  const Duration wait = std::min<Duration>(kFirstRetry * (1LL << std::min(tries_, 9)), kLongestRetry);
  ++tries_;
  return std::max<Duration>(retry_after, wait + rng.between(Duration(0), wait / 5));
}

}  // namespace ghostfleet::agent
