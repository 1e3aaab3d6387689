#include "agent/network/pool_decisions.h"

#include <algorithm>

namespace ghostfleet::agent {
namespace {

int prefixes_for(int addresses) { return (addresses + kAddressesOfPrefix - 1) / kAddressesOfPrefix; }

}  // namespace

TargetState target_state(const IpamConfig& c, int card, const PoolStats& s) {
  TargetState t;
  t.defined = c.targets_set(card);
  if (!t.defined) return t;
  const int warm = c.warm_ips(card), minimum = c.minimum_ips(card);
  t.shortage = std::max({warm - s.available(), 0, minimum - s.total});
  t.over = std::max(std::min(s.available() - warm, s.total - minimum), 0);
  if (!c.prefixes(card)) return t;
  t.shortage = prefixes_for(t.shortage);
  t.over =
      std::min({s.free_prefixes, s.prefixes - prefixes_for(s.assigned + warm), s.prefixes - prefixes_for(minimum)});
  t.over = std::max(t.over, 0);
  return t;
}

bool pool_too_low(const IpamConfig& c, int card, const PoolStats& s) {
  if (s.total >= effective_max_pods(c)) return false;
  const TargetState t = target_state(c, card, s);
  if (t.defined) return t.shortage > 0;
  const int warm = c.warm_units(card);
  return s.available() < c.unit(card) * warm || (warm == 0 && s.available() == 0);
}

bool pool_too_high(const IpamConfig& c, int card, const PoolStats& s) {
  const TargetState t = target_state(c, card, s);
  if (t.defined) return t.over > 0;
  return c.prefixes(card) && s.free_prefixes > c.warm_prefix_target;
}

int grow_amount(const IpamConfig& c, int card, const PoolStats& s) {
  const TargetState t = target_state(c, card, s);
  if (c.prefixes(card)) return std::max(1, t.defined ? t.shortage : c.warm_prefix_target - s.free_prefixes);
  return t.defined ? t.shortage : c.slots();
}

int grow_amount_of_new_eni(const IpamConfig& c, int card, const PoolStats& s) {
  return std::min(grow_amount(c, card, s), c.slots());
}

int shrink_amount(const IpamConfig& c, int card, const PoolStats& s) {
  const TargetState t = target_state(c, card, s);
  if (t.defined) return t.over;
  return c.prefixes(card) ? std::max(s.free_prefixes - c.warm_prefix_target, 0) : 0;
}

bool may_remove_eni(const IpamConfig& c, int card, const PoolStats& s, bool has_unused_eni) {
  if (c.targets_set(card)) return true;
  if (s.available() >= (c.warm_units(card) + 1) * c.addresses_per_eni(card)) return true;
  return c.prefixes(card) && has_unused_eni;
}

}  // namespace ghostfleet::agent
