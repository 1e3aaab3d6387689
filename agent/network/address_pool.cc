#include "agent/network/address_pool.h"

#include <algorithm>

#include "agent/network/ipam_config.h"

namespace ghostfleet::agent {

int PoolRange::assigned() const {
  return static_cast<int>(std::count_if(seen.begin(), seen.end(), [](const auto& a) { return a.holder != nullptr; }));
}

int PoolEni::assigned() const {
  int n = 0;
  for (const PoolRange& range : ranges) n += range.assigned();
  return n;
}

PoolEni* AddressPool::find_eni(EniId id) {
  const auto it = std::find_if(enis_.begin(), enis_.end(), [id](const PoolEni& e) { return e.id == id; });
  return it == enis_.end() ? nullptr : &*it;
}

bool AddressPool::add_eni(PoolEni eni) {
  if (find_eni(eni.id) != nullptr) return false;
  enis_.push_back(std::move(eni));
  return true;
}

bool AddressPool::add_range(EniId id, const Cidr& cidr) {
  PoolEni* eni = find_eni(id);
  if (eni == nullptr) return false;
  for (const PoolRange& range : eni->ranges) {
    if (range.cidr == cidr) return false;
  }
  eni->ranges.push_back({cidr, {}});
  return true;
}

bool AddressPool::remove_eni(EniId id, int* forced) {
  const auto it = std::find_if(enis_.begin(), enis_.end(), [id](const PoolEni& e) { return e.id == id; });
  if (it == enis_.end()) return false;
  if (forced != nullptr) *forced += it->assigned();
  enis_.erase(it);
  return true;
}

bool AddressPool::remove_range(EniId id, const Cidr& cidr, bool force, int* forced) {
  PoolEni* eni = find_eni(id);
  if (eni == nullptr) return false;
  const auto it = std::find_if(eni->ranges.begin(), eni->ranges.end(), [&](const auto& r) { return r.cidr == cidr; });
  if (it == eni->ranges.end()) return false;
  const int assigned = it->assigned();
  if (assigned > 0 && !force) return false;
  if (forced != nullptr) *forced += assigned;
  eni->ranges.erase(it);
  return true;
}

bool AddressPool::right_kind(const PoolRange& range) const { return range.is_prefix() == prefixes_; }

// Ranges never hold more than a few hundred remembered addresses, so looking for a gap may be simple.
std::optional<uint32_t> AddressPool::take_offset(PoolRange& range, TimePoint now) const {
  std::optional<uint32_t> reused;
  std::erase_if(range.seen, [&](const PoolAddress& a) {
    if (a.holder != nullptr || !cooled(a, now)) return false;
    if (!reused) reused = a.offset;
    return true;
  });
  if (reused) return reused;
  const auto size = static_cast<uint32_t>(range.size());
  if (range.seen.size() >= size) return std::nullopt;
  std::vector<bool> taken(range.seen.size() + 1);
  for (const PoolAddress& a : range.seen) {
    if (a.offset < taken.size()) taken[a.offset] = true;
  }
  uint32_t offset = 0;
  while (taken[offset]) ++offset;
  return offset;
}

std::optional<PodAddress> AddressPool::assign(const IpamHolder& holder, TimePoint now) {
  if (auto had = find(holder.key)) return had;
  for (PoolEni& eni : enis_) {
    if (eni.excluded) continue;
    for (PoolRange& range : eni.ranges) {
      if (!right_kind(range)) continue;
      const std::optional<uint32_t> offset = take_offset(range, now);
      if (!offset) continue;
      range.seen.push_back({*offset, {}, std::make_unique<IpamHolder>(holder)});
      return PodAddress{range.cidr.base.plus(*offset), eni.id, eni.device};
    }
  }
  return std::nullopt;
}

// Also into a range of the wrong kind: a pod keeps its address when the mode was changed.
bool AddressPool::restore(const Ip& ip, const IpamHolder& holder) {
  for (PoolEni& eni : enis_) {
    for (PoolRange& range : eni.ranges) {
      if (!range.cidr.contains(ip)) continue;
      const auto offset = static_cast<uint32_t>(ip.low - range.cidr.base.low);
      const auto same = [offset](const PoolAddress& a) { return a.offset == offset; };
      if (std::any_of(range.seen.begin(), range.seen.end(), same)) return false;
      range.seen.push_back({offset, {}, std::make_unique<IpamHolder>(holder)});
      return true;
    }
  }
  return false;
}

std::optional<AddressPool::Place> AddressPool::place_of(const IpamKey& key) const {
  for (size_t e = 0; e < enis_.size(); ++e) {
    for (size_t r = 0; r < enis_[e].ranges.size(); ++r) {
      const std::vector<PoolAddress>& seen = enis_[e].ranges[r].seen;
      for (size_t a = 0; a < seen.size(); ++a) {
        if (seen[a].holder != nullptr && seen[a].holder->key == key) return Place{e, r, a};
      }
    }
  }
  return std::nullopt;
}

std::optional<PodAddress> AddressPool::find(const IpamKey& key) const {
  const auto place = place_of(key);
  if (!place) return std::nullopt;
  const PoolEni& eni = enis_[place->eni];
  const PoolRange& range = eni.ranges[place->range];
  return PodAddress{range.cidr.base.plus(range.seen[place->address].offset), eni.id, eni.device};
}

std::unique_ptr<IpamHolder> AddressPool::release(const IpamKey& key, TimePoint now, Ip* ip) {
  const auto place = place_of(key);
  if (!place) return nullptr;
  PoolRange& range = enis_[place->eni].ranges[place->range];
  PoolAddress& address = range.seen[place->address];
  *ip = range.cidr.base.plus(address.offset);
  address.released = now;
  return std::move(address.holder);
}

void AddressPool::put_back(const Ip& ip, std::unique_ptr<IpamHolder> holder) {
  for (PoolEni& eni : enis_) {
    for (PoolRange& range : eni.ranges) {
      if (!range.cidr.contains(ip)) continue;
      for (PoolAddress& address : range.seen) {
        if (range.cidr.base.plus(address.offset) == ip && address.holder == nullptr) address.holder = std::move(holder);
      }
      return;
    }
  }
}

void AddressPool::forget(const IpamKey& key) {
  const auto place = place_of(key);
  if (!place) return;
  std::vector<PoolAddress>& seen = enis_[place->eni].ranges[place->range].seen;
  seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(place->address));
}

PoolStats AddressPool::stats(TimePoint now) const {
  PoolStats s;
  for (const PoolEni& eni : enis_) {
    if (eni.excluded) continue;
    for (const PoolRange& range : eni.ranges) {
      if (range.is_prefix()) ++s.prefixes;
      if (range.is_prefix() && range.assigned() == 0) ++s.free_prefixes;
      if (!right_kind(range)) continue;
      s.total += range.size();
      for (const PoolAddress& address : range.seen) {
        if (address.holder != nullptr) {
          ++s.assigned;
        } else if (!cooled(address, now)) {
          ++s.cooling;
        }
      }
    }
  }
  return s;
}

bool AddressPool::required(const KeepWarm& keep, const PoolEni& eni) const {
  int warm = 0, total = 0, free_prefixes = 0;
  for (const PoolEni& other : enis_) {
    if (other.id == eni.id) continue;
    for (const PoolRange& range : other.ranges) {
      if (range.assigned() == 0) ++free_prefixes;
      if (!right_kind(range)) continue;
      total += range.size();
      warm += range.size() - range.assigned();
    }
  }
  // Addresses come in prefixes: what is wanted is rounded up to them.
  const auto rounded = [this](int ips) {
    return prefixes_ ? (ips + kAddressesOfPrefix - 1) / kAddressesOfPrefix * kAddressesOfPrefix : ips;
  };
  if (keep.warm_ips > 0 && warm < rounded(keep.warm_ips)) return true;
  if (keep.minimum_ips > 0 && total < rounded(keep.minimum_ips)) return true;
  return prefixes_ && keep.warm_prefixes > 0 && free_prefixes < keep.warm_prefixes;
}

const PoolEni* AddressPool::deletable(const KeepWarm& keep, Duration min_age, TimePoint now, TimePoint* later) const {
  for (const PoolEni& eni : enis_) {
    if (eni.primary || eni.trunk || eni.efa || eni.assigned() > 0 || required(keep, eni)) continue;
    TimePoint from = eni.created + min_age;
    for (const PoolRange& range : eni.ranges) {
      for (const PoolAddress& address : range.seen) from = std::max(from, address.released + cooldown_);
    }
    if (from <= now) return &eni;
    *later = std::min(*later, from);
  }
  return nullptr;
}

bool AddressPool::has_unused_eni() const {
  return std::any_of(enis_.begin(), enis_.end(),
                     [](const PoolEni& eni) { return !eni.primary && !eni.trunk && !eni.efa && eni.assigned() == 0; });
}

bool AddressPool::has_trunk() const {
  return std::any_of(enis_.begin(), enis_.end(), [](const PoolEni& eni) { return eni.trunk; });
}

}  // namespace ghostfleet::agent
