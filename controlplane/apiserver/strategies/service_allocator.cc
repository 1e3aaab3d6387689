#include "controlplane/apiserver/strategies/service_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "controlplane/apiserver/strategies/validation.h"
#include "controlplane/apiserver/strategies/workload_common.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;

namespace {

constexpr size_t kMaxAddresses = 65536;
// The lower addresses are left to those who ask for a certain one (kubernetes.default, DNS).
constexpr size_t kReservedAddresses = 16;

}  // namespace

bool parse_ipv4(std::string_view text, uint32_t* address) {
  uint32_t value = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  for (int i = 0; i < 4; ++i) {
    unsigned part = 0;
    auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc() || part > 255 || next - at > 3) return false;
    value = value << 8 | part;
    at = next;
    if (i < 3) {
      if (at == end || *at != '.') return false;
      ++at;
    }
  }
  *address = value;
  return at == end;
}

void ServiceAllocator::prepare(Api& api, std::string_view cidr, int first_port, int last_port) {
  std::lock_guard lock(mutex_);
  if (ready_) return;
  ready_ = true;
  size_t slash = cidr.find('/');
  unsigned bits = 16;
  if (slash != std::string_view::npos) std::from_chars(cidr.data() + slash + 1, cidr.data() + cidr.size(), bits);
  bits = std::clamp(bits, 8U, 28U);
  uint32_t address = 0;
  parse_ipv4(cidr.substr(0, slash), &address);
  base_ = address & ~((1U << (32 - bits)) - 1);
  addresses_.assign(std::min<size_t>(size_t{1} << (32 - bits), kMaxAddresses), false);
  addresses_.front() = true;  // the network
  addresses_.back() = true;   // broadcast
  next_address_ = std::min(kReservedAddresses, addresses_.size() / 2);
  first_port_ = first_port;
  last_port_ = std::max(first_port, last_port);
  ports_.assign(static_cast<size_t>(last_port_ - first_port_ + 1), false);
  learn(api);
}

void ServiceAllocator::learn(Api& api) {
  const Resource* services = api.find("", "v1", "services");
  if (services == nullptr) return;
  auto list = api.store().list(services->store_kind, {});
  if (!list.ok()) return;
  for (const ObjectRef& object : list->items) {
    auto json = kube::parse_json(object->json);
    if (!json.ok()) continue;
    const Json& spec = spec_of(*json);
    size_t index = 0;
    if (index_of(text_of(spec, "clusterIP"), &index)) addresses_[index] = true;
    const JsonArray* ports = array_of(spec, "ports");
    for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
      int64_t port = int_of((*ports)[i], "nodePort");
      if (port >= first_port_ && port <= last_port_) ports_[static_cast<size_t>(port - first_port_)] = true;
    }
    int64_t health = int_of(spec, "healthCheckNodePort");
    if (health >= first_port_ && health <= last_port_) ports_[static_cast<size_t>(health - first_port_)] = true;
  }
}

bool ServiceAllocator::index_of(std::string_view address, size_t* index) const {
  uint32_t value = 0;
  if (!parse_ipv4(address, &value) || value < base_ || value - base_ >= addresses_.size()) return false;
  *index = value - base_;
  return true;
}

std::string ServiceAllocator::address_at(size_t index) const {
  uint32_t value = base_ + static_cast<uint32_t>(index);
  return fmt::format("{}.{}.{}.{}", value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255);
}

std::string ServiceAllocator::take_address() {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    size_t index = (next_address_ + i) % addresses_.size();
    if (addresses_[index]) continue;
    addresses_[index] = true;
    next_address_ = index + 1;
    return address_at(index);
  }
  return {};
}

ServiceAllocator::Answer ServiceAllocator::take_address(std::string_view address) {
  std::lock_guard lock(mutex_);
  size_t index = 0;
  if (!index_of(address, &index) || index == 0 || index + 1 == addresses_.size()) return Answer::kOutOfRange;
  if (addresses_[index]) return Answer::kTaken;
  addresses_[index] = true;
  return Answer::kGiven;
}

void ServiceAllocator::give_address_back(std::string_view address) {
  std::lock_guard lock(mutex_);
  size_t index = 0;
  if (index_of(address, &index) && index != 0 && index + 1 != addresses_.size()) addresses_[index] = false;
}

int ServiceAllocator::take_port() {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < ports_.size(); ++i) {
    size_t index = (next_port_ + i) % ports_.size();
    if (ports_[index]) continue;
    ports_[index] = true;
    next_port_ = index + 1;
    return first_port_ + static_cast<int>(index);
  }
  return 0;
}

ServiceAllocator::Answer ServiceAllocator::take_port(int port) {
  std::lock_guard lock(mutex_);
  if (port < first_port_ || port > last_port_) return Answer::kOutOfRange;
  auto taken = ports_[static_cast<size_t>(port - first_port_)];
  if (taken) return Answer::kTaken;
  taken = true;
  return Answer::kGiven;
}

void ServiceAllocator::give_port_back(int port) {
  std::lock_guard lock(mutex_);
  if (port >= first_port_ && port <= last_port_) ports_[static_cast<size_t>(port - first_port_)] = false;
}

}  // namespace ghostfleet::controlplane
