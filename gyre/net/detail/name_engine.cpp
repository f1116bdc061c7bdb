// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/name_engine.hpp>

#include <gyre/net/detail/destination_order.hpp>

#include <ares.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::net::detail {
namespace {

// More of them are there only when most questions in each are abandoned.
constexpr std::size_t most_channels = 8;

std::unexpected<std::error_code> failure(std::error_code error) { return std::unexpected(error); }

std::error_code cancelled() { return std::make_error_code(std::errc::operation_canceled); }
std::error_code no_memory() { return std::make_error_code(std::errc::not_enough_memory); }

void require(bool sensible, const char* what) {
  if (!sensible) throw std::invalid_argument(what);
}

bool is_localhost(std::string_view key) {
  return key == "localhost" || key.ends_with(".localhost");
}

// Not to be asked for (RFC 7686).
bool is_onion(std::string_view key) { return key == "onion" || key.ends_with(".onion"); }

// A dot at the end keeps search domains away: another question.
question_key key_for(const waiting_lookup& lookup, std::string_view host) {
  std::string name = host_key(host);
  if (host.ends_with('.')) name += '.';
  return {std::move(name), lookup.kind.records};
}

// What c-ares 1.18 does not look at itself.
bool can_be_name(std::string_view host) {
  return !host.empty() && host != "." && host.size() <= 254 && !host.contains('\0') &&
         !host.contains(':');
}

// Of two failures the one to tell: rather that there is such a name than that there is none, and
// rather than both what may be better the next time.
std::error_code graver(std::error_code one, std::error_code other) {
  const auto gravity = [](std::error_code each) {
    return !each                                  ? 0
           : each == resolve_errc::host_not_found ? 1
           : each == resolve_errc::no_data        ? 2
                                                  : 3;
  };
  return gravity(one) >= gravity(other) ? one : other;
}

bool is_negative(std::error_code error) {
  return error == resolve_errc::host_not_found || error == resolve_errc::no_data;
}

// After these a name may still be found in another domain.
bool may_be_elsewhere(std::error_code error) {
  return is_negative(error) || error == resolve_errc::server_failure;
}

// Without the dot that keeps search domains away.
std::string_view plain_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

// Of one kind at least.
bool has_answer(const question& asked) {
  return std::ranges::any_of(asked.queries, [](const dns_query& each) {
    return each.answer && (!each.answer->empty() || !each.message.empty());
  });
}

// What is known of a name so far, the best first.
std::vector<ip_address> addresses_in(const std::vector<dns_query>& queries) {
  std::vector<ip_address> found;
  for (const dns_query& each : queries) {
    if (each.answer) found.insert(found.end(), each.answer->begin(), each.answer->end());
  }
  sort_destinations(found);
  return found;
}

}  // namespace

name_engine::name_engine(event_loop& loop, resolver_options options)
    : loop_(loop),
      options_(std::move(options)),
      hosts_(options_.hosts_file),
      cache_(options_.cache) {
  require(options_.tries >= 1, "gyre::net::resolver: tries must be at least 1");
  require(options_.max_concurrent >= 1, "gyre::net::resolver: max_concurrent must be at least 1");
  require(options_.timeout.count() >= 1 && std::in_range<int>(options_.timeout.count()),
          "gyre::net::resolver: the timeout must be at least 1 ms");
  for (const endpoint& each : options_.servers) {
    require(each.is_ip() && each.address().scope() == 0,
            "gyre::net::resolver: a server must be an IP endpoint without a scope");
  }
  deliver_soon_.emplace(loop, [this] { deliver(); });
  resolv_conf_.update(options_.resolv_conf);
  add_channel();
}

name_engine::~name_engine() { assert(channels_.empty() && pending_ == 0); }

// Users may start nothing in there, so that it comes to an end.
void name_engine::close() noexcept {
  const auto alive = shared_from_this();
  closed_ = true;
  channels_.clear();
  while (question* asked = queue_.pop_front()) end(*asked, failure(cancelled()));
  while (waiting_lookup* lookup = told_.pop_front()) {
    --pending_;
    lookup->tell(*lookup);
  }
  deliver_soon_.reset();
}

std::size_t name_engine::abandoned() const noexcept {
  std::size_t count = 0;
  for (const dns_channel& each : channels_) count += each.in_flight - each.wanted;
  return count;
}

std::vector<dns_query> name_engine::queries_for(question& asked) const {
  std::vector<dns_query> queries;
  const auto add = [&](record_type type) {
    queries.push_back({.asked_for = &asked, .type = type, .answer = {}});
  };
  if (asked.key->second != 0) {
    add(static_cast<record_type>(asked.key->second));
  } else {
    if (options_.addresses != address_choice::ipv4_only) add(record_type::aaaa);
    if (options_.addresses != address_choice::ipv6_only) add(record_type::a);
  }
  return queries;
}

std::vector<std::string> name_engine::names_for(const question_key& key) const {
  if (key.second != 0) return {key.first};
  return channels_.back().search().names_for(key.first);
}

// Questions that are under way stay with the servers of before.
void name_engine::reload_if_changed() noexcept {
  const bool matters = options_.servers.empty() || !options_.search_domains || !options_.ndots;
  if (!matters || channels_.size() >= most_channels) return;
  if (!resolv_conf_.update(options_.resolv_conf)) return;
  cache_.clear();
  try {
    add_channel();
  } catch (...) {
    return;  // those of before are better than none
  }
  end_abandoned();
}

bool name_engine::wanted(const ip_address& address) const noexcept {
  if (options_.addresses == address_choice::ipv4_only) return address.is_v4();
  if (options_.addresses == address_choice::ipv6_only) return address.is_v6();
  return true;
}

resolve_result name_engine::choose(const std::vector<ip_address>& addresses,
                                   std::uint16_t port) const {
  const auto comes_first = [this](const ip_address& each) {
    if (options_.addresses == address_choice::ipv4_first) return each.is_v4();
    return options_.addresses != address_choice::ipv6_first || each.is_v6();
  };
  std::vector<endpoint> chosen;
  chosen.reserve(addresses.size());
  for (const bool first : {true, false}) {
    for (const ip_address& each : addresses) {
      if (wanted(each) && comes_first(each) == first) chosen.emplace_back(each, port);
    }
  }
  if (chosen.empty()) return failure(resolve_errc::no_data);
  return chosen;
}

std::optional<std::vector<ip_address>> name_engine::from_hosts(std::string_view key) {
  const std::vector<ip_address>* found = hosts_.find(key);
  if (found == nullptr) return std::nullopt;
  std::vector<ip_address> chosen;
  std::ranges::copy_if(*found, std::back_inserter(chosen),
                       [this](const ip_address& each) { return wanted(each); });
  if (chosen.empty()) return std::nullopt;
  return chosen;
}

std::optional<resolve_result> name_engine::known(waiting_lookup& lookup, std::string_view host,
                                                 const service& port) {
  lookup.port = port.port().value_or(0);
  if (lookup.kind.records != 0) {
    if (!can_be_name(host)) return failure(resolve_errc::bad_name);
    reload_if_changed();
    return from_cache(lookup, key_for(lookup, host));
  }
  if (!port.port()) return failure(resolve_errc::service_not_found);
  const auto numeric = ip_address::parse(host);
  if (numeric) return choose({*numeric}, *port.port());
  if (numeric.error() == std::errc::no_such_device) return failure(numeric.error());
  if (!can_be_name(host)) return failure(resolve_errc::bad_name);
  const std::string key = host_key(host);
  const bool local = is_localhost(key);
  if (options_.order == lookup_order::hosts_then_dns ||
      options_.order == lookup_order::hosts_only ||
      (options_.order == lookup_order::dns_then_hosts && local)) {
    if (const auto found = from_hosts(key)) return choose(*found, *port.port());
  }
  if (local) return choose({ip_address::loopback_v6(), ip_address::loopback_v4()}, *port.port());
  if (options_.order == lookup_order::hosts_only || is_onion(key)) {
    return failure(resolve_errc::host_not_found);
  }
  reload_if_changed();
  return from_cache(lookup, key_for(lookup, host));
}

// Nothing if a server must be asked for some of it.
std::optional<resolve_result> name_engine::from_cache(waiting_lookup& lookup,
                                                      const question_key& key) {
  if (cache_.metrics().entries == 0) return std::nullopt;
  question told;
  told.key = &key;
  for (const std::string& name : names_for(key)) {
    told.queries = queries_for(told);
    std::error_code error;
    for (dns_query& each : told.queries) {
      const auto* kept = cache_.find(plain_name(name), each.type, loop_.now());
      if (kept == nullptr) return std::nullopt;
      take_answer(each, kept->status, kept->message);
      if (!each.answer) error = graver(error, each.answer.error());
    }
    told.failure = graver(told.failure, error);
    if (has_answer(told)) break;
  }
  cache_.count_hit();
  set_result(lookup, told, conclude(told));
  return std::move(lookup.result);
}

void name_engine::ask(waiting_lookup& lookup, std::string_view host, const service& port) {
  const auto [at, is_new] = questions_.try_emplace(key_for(lookup, host));
  question& asked = at->second;
  if (is_new) {
    cache_.count_miss();
    asked.engine = this;
    asked.key = &at->first;
    queue_.push_back(asked);
  } else if (asked.channel != nullptr && asked.waiting.empty()) {
    ++asked.channel->wanted;
    ++wanted_in_flight_;
  }
  lookup.owner = this;
  lookup.asked = &asked;
  lookup.port = *port.port();
  asked.waiting.push_back(lookup);
  ++pending_;
  if (!is_new) tell_first_family(asked);
  ask_servers();
  end_abandoned();
}

void name_engine::tell_later(waiting_lookup& lookup, resolve_result result) noexcept {
  lookup.owner = this;
  lookup.result = std::move(result);
  ++pending_;
  note(lookup);
}

// Has its result; to be told when no frame of c-ares or of the user's call is on the stack.
void name_engine::note(waiting_lookup& lookup) noexcept {
  lookup.asked = nullptr;
  told_.push_back(lookup);
  if (deliver_soon_ && !deliver_soon_->active()) deliver_soon_->start_after({});
}

bool name_engine::cancel(waiting_lookup& lookup) noexcept {
  if (!lookup.active()) return false;
  lookup.unlink();
  --pending_;
  question* const asked = lookup.asked;
  if (asked == nullptr || !asked->waiting.empty()) return true;
  if (asked->channel == nullptr) {
    asked->unlink();
    questions_.erase(questions_.find(*asked->key));
    return true;
  }
  --asked->channel->wanted;
  --wanted_in_flight_;
  end_abandoned();
  ask_servers();
  return true;
}

// Those of channels in which nobody waits for anything. Not from a callback of c-ares.
void name_engine::end_abandoned() noexcept {
  for (auto each = channels_.begin(); each != channels_.end();) {
    const auto at = each++;
    if (at->wanted > 0) continue;
    if (each != channels_.end()) {
      channels_.erase(at);
    } else if (at->in_flight > 0) {
      at->cancel_all();
    }
  }
}

dns_channel& name_engine::add_channel() {
  dns_channel::owner& self = *this;  // emplace_back() may not see the base
  return channels_.emplace_back(loop_, self, options_);
}

// Null if none may take more.
dns_channel* name_engine::channel_for_next() noexcept {
  dns_channel& present = channels_.back();
  if (present.in_flight - present.wanted < options_.max_concurrent) return &present;
  if (channels_.size() >= most_channels) return nullptr;
  try {
    return &add_channel();
  } catch (...) {
    return nullptr;  // the next to be abandoned or answered tries again
  }
}

void name_engine::ask_servers() noexcept {
  while (wanted_in_flight_ < options_.max_concurrent && !queue_.empty()) {
    dns_channel* const by = channel_for_next();
    if (by == nullptr) break;
    begin(*queue_.pop_front(), *by);
  }
}

// May end the question at once.
void name_engine::begin(question& next, dns_channel& by) noexcept {
  next.channel = &by;
  ++by.in_flight;
  ++by.wanted;
  ++wanted_in_flight_;
  try {
    next.names = names_for(*next.key);
    next.queries = queries_for(next);
  } catch (const std::bad_alloc&) {
    return end(next, failure(no_memory()));
  }
  ask_next_name(next);
}

void name_engine::ask_next_name(question& asked) noexcept {
  const std::string& name = asked.names[asked.tried++];
  asked.unanswered = asked.queries.size();
  asked.asking = true;
  for (dns_query& each : asked.queries) {
    each.answer.emplace();
    each.message.clear();
    if (const auto* kept = cache_.find(plain_name(name), each.type, loop_.now())) {
      take_answer(each, kept->status, kept->message);
      --asked.unanswered;
    } else {
      asked.channel->query(name, each.type, &on_answer, &each);
    }
  }
  asked.channel->wait_for_servers();
  asked.asking = false;
  advance(asked);
}

void name_engine::on_answer(void* query, int status, int, unsigned char* message,
                            int size) noexcept {
  auto& answered = *static_cast<dns_query*>(query);
  question& asked = *answered.asked_for;
  name_engine& engine = *asked.engine;
  const dns_message answer(message, static_cast<std::size_t>(message == nullptr ? 0 : size));
  engine.take_answer(answered, status, answer);
  if (!answer.empty() && (answered.answer || is_negative(answered.answer.error()))) {
    engine.cache_.keep(plain_name(asked.names[asked.tried - 1]), answered.type, status, answer,
                       engine.loop_.now());
  }
  --asked.unanswered;
  if (!asked.asking) engine.advance(asked);
}

void name_engine::take_answer(dns_query& query, int status, dns_message message) noexcept {
  if (status != ARES_SUCCESS || message.empty()) {
    query.answer = failure(status == ARES_SUCCESS ? resolve_errc::no_data : dns_error(status));
    return;
  }
  try {
    if (query.type != record_type::a && query.type != record_type::aaaa) {
      query.message.assign(message.begin(), message.end());
      return;
    }
    query.answer = decode_addresses(query.type, message);
  } catch (const std::bad_alloc&) {
    query.answer = failure(no_memory());
  }
}

// After answers. May end the question.
void name_engine::advance(question& asked) noexcept {
  if (asked.unanswered > 0) return tell_first_family(asked);
  if (!has_answer(asked)) {
    std::error_code error;
    for (const dns_query& each : asked.queries) error = graver(error, each.answer.error());
    asked.failure = graver(asked.failure, error);
    const bool is_last = asked.tried == asked.names.size();
    if (may_be_elsewhere(error) && !is_last && !asked.waiting.empty()) return ask_next_name(asked);
    if (!may_be_elsewhere(error)) asked.failure = error;
  }
  try {
    end(asked, conclude(asked));
  } catch (const std::bad_alloc&) {
    end(asked, failure(no_memory()));
  }
}

resolve_result name_engine::conclude(const question& asked) {
  if (closed_) return failure(cancelled());
  if (const auto found = addresses_in(asked.queries); !found.empty()) return choose(found, 0);
  if (asked.key->second != 0) {
    if (has_answer(asked)) return {};
    return failure(asked.failure);
  }
  if (options_.order == lookup_order::dns_then_hosts && asked.failure != cancelled()) {
    if (const auto found = from_hosts(host_key(asked.key->first))) return choose(*found, 0);
  }
  return failure(asked.failure);
}

bool name_engine::is_preferred(const endpoint& address) const noexcept {
  const bool is_v4 = address.family() == address_family::ipv4;
  return is_v4 == (options_.addresses == address_choice::ipv4_first ||
                   options_.addresses == address_choice::ipv4_only);
}

// Those who need not know all addresses.
void name_engine::tell_first_family(question& asked) noexcept try {
  if (!has_answer(asked)) return;
  const steady_time present = loop_.now();
  if (!asked.resolution_delay) asked.first_known = present;
  const resolve_result found = choose(addresses_in(asked.queries), 0);
  const bool at_once = !found || is_preferred(found->front());
  const bool was_wanted = !asked.waiting.empty();
  steady_time next = steady_time::max();
  for (auto each = asked.waiting.begin(); each != asked.waiting.end();) {
    waiting_lookup& lookup = *each++;
    if (!lookup.kind.resolution_delay) continue;
    const steady_time due = gyre::detail::later(asked.first_known, *lookup.kind.resolution_delay);
    if (!at_once && present < due) {
      next = std::min(next, due);
      continue;
    }
    lookup.unlink();
    set_result(lookup, asked, found);
    note(lookup);
  }
  if (was_wanted && asked.waiting.empty()) {
    --asked.channel->wanted;
    --wanted_in_flight_;
  }
  if (next != steady_time::max()) delay_first_family(asked, next);
} catch (const std::bad_alloc&) {
  return;  // they wait until all is known
}

void name_engine::delay_first_family(question& asked, steady_time until) {
  if (!asked.resolution_delay) {
    asked.resolution_delay.emplace(loop_, [this, &asked] {
      tell_first_family(asked);
      end_abandoned();
      ask_servers();
    });
  }
  asked.resolution_delay->start_at(until);
}

void name_engine::set_result(waiting_lookup& lookup, const question& asked,
                             const resolve_result& result) noexcept {
  try {
    lookup.result = result;
    if (!result) return;
    for (endpoint& each : *lookup.result) each.set_port(lookup.port);
    if (asked.key->second != 0) lookup.message = asked.queries.front().message;
  } catch (const std::bad_alloc&) {
    lookup.result = failure(no_memory());
  }
}

void name_engine::end(question& ended, const resolve_result& result) noexcept {
  if (ended.channel != nullptr) {
    --ended.channel->in_flight;
    if (!ended.waiting.empty()) {
      --ended.channel->wanted;
      --wanted_in_flight_;
    }
  }
  while (waiting_lookup* lookup = ended.waiting.pop_front()) {
    set_result(*lookup, ended, result);
    note(*lookup);
  }
  questions_.erase(questions_.find(*ended.key));
}

void name_engine::servers_processed() {
  end_abandoned();
  ask_servers();
  deliver();
}

// Those that have their result now; what their functions begin is told of in the next turn, as is
// what is left when one throws.
void name_engine::deliver() {
  const auto alive = shared_from_this();
  auto due = std::ranges::distance(told_.begin(), told_.end());
  if (due > 1 && !deliver_soon_->active()) deliver_soon_->start_after({});
  for (; due > 0 && !told_.empty(); --due) {
    waiting_lookup& lookup = *told_.pop_front();
    --pending_;
    lookup.tell(lookup);
  }
  if (!closed() && told_.empty()) deliver_soon_->cancel();
}

}  // namespace gyre::net::detail
