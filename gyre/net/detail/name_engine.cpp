// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/name_engine.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/resolve_error.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <ares.h>

#include <cassert>
#include <new>

namespace gyre::net::detail {

question_key key_for(const waiting_lookup& lookup, std::string_view host) {
  std::string name = host_key(host);
  if (host.ends_with('.')) name += '.';
  return {std::move(name), lookup.kind.records};
}

std::error_code graver(std::error_code left, std::error_code right) {
  const auto gravity = [](std::error_code error) {
    return !error                                  ? 0
           : error == resolve_errc::host_not_found ? 1
           : error == resolve_errc::no_data        ? 2
                                                   : 3;
  };
  return gravity(left) >= gravity(right) ? left : right;
}

std::string_view plain_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

namespace {

// The maximum number of channels. A further channel opens only when most questions of the others
// were abandoned.
constexpr std::size_t max_channels = 8;

bool is_negative(std::error_code error) {
  return error == resolve_errc::host_not_found || error == resolve_errc::no_data;
}

bool is_localhost(std::string_view key) {
  return key == "localhost" || key.ends_with(".localhost");
}

// Whether the name is below ".onion"; such names must not be queried in the DNS (RFC 7686).
bool is_onion(std::string_view key) { return key == "onion" || key.ends_with(".onion"); }

// Whether `host` can be a name. Makes checks that c-ares 1.18 does not make.
bool can_be_name(std::string_view host) {
  return !host.empty() && host != "." && host.size() <= 254 && !host.contains('\0') &&
         !host.contains(':');
}

// Whether a name whose query failed with `error` may still exist in another search domain.
bool may_be_elsewhere(std::error_code error) {
  return is_negative(error) || error == resolve_errc::server_failure;
}

}  // namespace

name_engine::name_engine(event_loop& loop, resolver_options options)
    : loop_(loop),
      options_(std::move(options)),
      hosts_(options_.hosts_file),
      cache_(options_.cache) {
  require(options_.tries >= 1, "gyre::net::resolver: tries must be at least 1");
  require(options_.max_concurrent >= 1, "gyre::net::resolver: max_concurrent must be at least 1");
  gyre::detail::require_positive(options_.timeout, "gyre::net::resolver: timeout");
  gyre::detail::require_not_negative(options_.cache.longest_positive,
                                     "gyre::net::resolver: cache.longest_positive");
  gyre::detail::require_not_negative(options_.cache.longest_negative,
                                     "gyre::net::resolver: cache.longest_negative");
  for (const endpoint& server : options_.servers) {
    require(server.is_ip(), "gyre::net::resolver: a server must be an IP endpoint");
  }
  delivery_.emplace(loop, [this] { deliver_completions(); });
  resolv_conf_.update(options_.resolv_conf);
  channels_.emplace_back(*this, options_);
}

name_engine::~name_engine() { assert(channels_.empty() && pending_lookups_ == 0); }

// The loops below end, because callbacks cannot start lookups on a closed engine.
void name_engine::close() noexcept {
  const auto self = shared_from_this();
  is_closed_ = true;
  channels_.clear();
  while (question* entry = queue_.pop_front())
    end_question(*entry, failure(resolve_errc::resolver_destroyed));
  while (waiting_lookup* lookup = completed_lookups_.pop_front()) {
    --pending_lookups_;
    lookup->complete(*lookup);
  }
  delivery_.reset();
}

std::size_t name_engine::abandoned() const noexcept {
  std::size_t count = 0;
  for (const dns_channel& channel : channels_) count += channel.in_flight - channel.awaited_queries;
  return count;
}

std::vector<dns_query> name_engine::queries_for(question& entry) const {
  std::vector<dns_query> queries;
  const auto add = [&](record_type type) {
    queries.push_back({.owner = &entry, .type = type, .answer = {}});
  };
  if (entry.key->second != 0) {
    add(static_cast<record_type>(entry.key->second));
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

// Opens a new channel if resolv.conf has changed. Questions in flight stay with their servers.
void name_engine::reload_if_changed() noexcept {
  const bool needs_configuration =
      options_.servers.empty() || !options_.search_domains || !options_.ndots;
  if (!needs_configuration || channels_.size() >= max_channels) return;
  if (!resolv_conf_.update(options_.resolv_conf)) return;
  cache_.clear();
  try {
    channels_.emplace_back(*this, options_);
  } catch (...) {
    return;  // after a failure, the old servers remain in use
  }
  cancel_abandoned();
}

// --- Lookups that need no server: numbers, the hosts file, reserved names, and the cache ---

bool name_engine::is_requested(const ip_address& address) const noexcept {
  if (options_.addresses == address_choice::ipv4_only) return address.is_v4();
  if (options_.addresses == address_choice::ipv6_only) return address.is_v6();
  return true;
}

resolve_result name_engine::select_addresses(const std::vector<ip_address>& addresses,
                                             std::uint16_t port) const {
  const auto comes_first = [this](const ip_address& address) {
    if (options_.addresses == address_choice::ipv4_first) return address.is_v4();
    return options_.addresses != address_choice::ipv6_first || address.is_v6();
  };
  std::vector<endpoint> endpoints;
  endpoints.reserve(addresses.size());
  for (const bool is_first : {true, false}) {
    for (const ip_address& address : addresses) {
      if (is_requested(address) && comes_first(address) == is_first)
        endpoints.emplace_back(address, port);
    }
  }
  if (endpoints.empty()) return failure(resolve_errc::no_data);
  return endpoints;
}

const std::vector<ip_address>* name_engine::from_hosts(std::string_view key) {
  const std::vector<ip_address>* const result = hosts_.find(key);
  const auto may_keep = [this](const ip_address& address) { return is_requested(address); };
  return result != nullptr && std::ranges::any_of(*result, may_keep) ? result : nullptr;
}

std::optional<resolve_result> name_engine::resolve_locally(waiting_lookup& lookup,
                                                           std::string_view host,
                                                           const service& port) {
  lookup.port = port.port().value_or(0);
  if (lookup.kind.records == 0) {
    if (!port.port()) return failure(resolve_errc::service_not_found);
    const auto address = ip_address::parse(host);
    if (address) return select_addresses({*address}, lookup.port);
    if (address.error() == std::errc::no_such_device) return failure(address.error());
  }
  if (!can_be_name(host)) return failure(resolve_errc::bad_name);
  if (lookup.kind.records == 0) {
    if (ends_in_number(host)) return failure(resolve_errc::numeric_host);
    using enum lookup_order;
    const std::string key = host_key(host);
    const bool is_local = is_localhost(key);
    if (is_local ? options_.order != dns_only
                 : options_.order == hosts_then_dns || options_.order == hosts_only) {
      if (const auto result = from_hosts(key)) return select_addresses(*result, lookup.port);
    }
    if (is_local)
      return select_addresses({ip_address::loopback_v6(), ip_address::loopback_v4()}, lookup.port);
    if (options_.order == hosts_only || is_onion(key)) return failure(resolve_errc::host_not_found);
  }
  reload_if_changed();
  return from_cache(lookup, key_for(lookup, host));
}

// Returns nothing if a part of the answer must come from a server.
std::optional<resolve_result> name_engine::from_cache(waiting_lookup& lookup,
                                                      const question_key& key) {
  if (cache_.metrics().entries == 0) return std::nullopt;
  question local_question;
  local_question.key = &key;
  for (const std::string& name : names_for(key)) {
    local_question.queries = queries_for(local_question);
    for (dns_query& query : local_question.queries) {
      const auto* cached_answer = cache_.find(plain_name(name), query.type, loop_.now());
      if (cached_answer == nullptr) return std::nullopt;
      decode_answer(query, cached_answer->status, cached_answer->message);
    }
    local_question.failure = graver(local_question.failure, local_question.query_failure());
    if (local_question.has_answer()) break;
  }
  cache_.count_hit();
  set_result(lookup, local_question, result_of(local_question));
  return std::move(lookup.result);
}

// --- Questions for servers ---

void name_engine::start_query(waiting_lookup& lookup, std::string_view host, const service& port) {
  const auto [position, is_new] = questions_.try_emplace(key_for(lookup, host));
  question& entry = position->second;
  if (is_new) {
    cache_.count_miss();
    entry.engine = this;
    entry.key = &position->first;
    queue_.push_back(entry);
  } else if (entry.channel != nullptr && entry.waiting_lookups.empty()) {
    ++entry.channel->awaited_queries;
    ++awaited_in_flight_;
  }
  lookup.owner = this;
  lookup.current_question = &entry;
  lookup.port = *port.port();
  entry.waiting_lookups.push_back(lookup);
  ++pending_lookups_;
  if (!is_new) complete_first_family(entry);
  start_queued();
  cancel_abandoned();
}

void name_engine::complete_later(waiting_lookup& lookup, resolve_result result) noexcept {
  lookup.owner = this;
  lookup.result = std::move(result);
  ++pending_lookups_;
  queue_completion(lookup);
}

// Schedules the call of the lookup's function for a turn in which no frame of c-ares or of the
// user's call is on the stack.
void name_engine::queue_completion(waiting_lookup& lookup) noexcept {
  lookup.current_question = nullptr;
  completed_lookups_.push_back(lookup);
  if (delivery_ && !delivery_->active()) delivery_->start_after({});
}

bool name_engine::cancel(waiting_lookup& lookup) noexcept {
  if (!lookup.active()) return false;
  lookup.unlink();
  --pending_lookups_;
  question* const entry = lookup.current_question;
  if (entry == nullptr || !entry->waiting_lookups.empty()) return true;
  if (entry->channel == nullptr) {
    entry->unlink();
    questions_.erase(questions_.find(*entry->key));
    return true;
  }
  --entry->channel->awaited_queries;
  --awaited_in_flight_;
  cancel_abandoned();
  start_queued();
  return true;
}

// Ends the questions of channels in which no lookup waits. Must not be called by a callback of
// c-ares.
void name_engine::cancel_abandoned() noexcept {
  for (auto position = channels_.begin(); position != channels_.end();) {
    const auto channel = position++;
    if (channel->awaited_queries > 0) continue;
    if (position != channels_.end()) {
      channels_.erase(channel);
    } else if (channel->in_flight > 0) {
      channel->cancel_all();
    }
  }
}

// Returns the channel for the next question; null if no channel may take more.
dns_channel* name_engine::channel_for_next() noexcept {
  dns_channel& newest_channel = channels_.back();
  if (newest_channel.in_flight - newest_channel.awaited_queries < options_.max_concurrent)
    return &newest_channel;
  if (channels_.size() >= max_channels) return nullptr;
  try {
    return &channels_.emplace_back(*this, options_);
  } catch (...) {
    return nullptr;  // the question is started when another one ends or is abandoned
  }
}

void name_engine::start_queued() noexcept {
  while (awaited_in_flight_ < options_.max_concurrent && !queue_.empty()) {
    dns_channel* const channel = channel_for_next();
    if (channel == nullptr) break;
    start_question(*queue_.pop_front(), *channel);
  }
}

// Starts a queued question on `channel`; the question may end at once.
void name_engine::start_question(question& entry, dns_channel& channel) noexcept {
  entry.channel = &channel;
  ++channel.in_flight;
  ++channel.awaited_queries;
  ++awaited_in_flight_;
  try {
    entry.names = names_for(*entry.key);
    entry.queries = queries_for(entry);
  } catch (const std::bad_alloc&) {
    return end_question(entry, failure(no_memory()));
  }
  query_next_name(entry);
}

void name_engine::query_next_name(question& entry) noexcept {
  const std::string& name = entry.names[entry.tried_names++];
  entry.unanswered_queries = entry.queries.size();
  entry.starting_queries = true;
  for (dns_query& query : entry.queries) {
    query.answer.emplace();
    query.message.clear();
    if (const auto* cached_answer = cache_.find(plain_name(name), query.type, loop_.now())) {
      decode_answer(query, cached_answer->status, cached_answer->message);
      --entry.unanswered_queries;
    } else {
      entry.channel->query(name, query.type, &on_answer, &query);
    }
  }
  entry.channel->wait_for_servers();
  entry.starting_queries = false;
  advance_question(entry);
}

void name_engine::on_answer(void* query, int status, int, unsigned char* message,
                            int size) noexcept {
  auto& own_query = *static_cast<dns_query*>(query);
  question& entry = *own_query.owner;
  name_engine& engine = *entry.engine;
  const dns_message answer(message, static_cast<std::size_t>(message == nullptr ? 0 : size));
  engine.decode_answer(own_query, status, answer);
  if (!answer.empty() && (own_query.answer || is_negative(own_query.answer.error()))) {
    engine.cache_.keep(plain_name(entry.names[entry.tried_names - 1]), own_query.type, status,
                       answer, engine.loop_.now());
  }
  --entry.unanswered_queries;
  if (!entry.starting_queries) engine.advance_question(entry);
}

void name_engine::decode_answer(dns_query& query, int status, dns_message message) noexcept {
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

// Continues the question after an answer, and may end it.
void name_engine::advance_question(question& entry) noexcept {
  if (entry.unanswered_queries > 0) return complete_first_family(entry);
  if (!entry.has_answer()) {
    const std::error_code error = entry.query_failure();
    entry.failure = graver(entry.failure, error);
    const bool is_last = entry.tried_names == entry.names.size();
    if (may_be_elsewhere(error) && !is_last && !entry.waiting_lookups.empty())
      return query_next_name(entry);
    if (!may_be_elsewhere(error)) entry.failure = error;
  }
  try {
    end_question(entry, result_of(entry));
  } catch (const std::bad_alloc&) {
    end_question(entry, failure(no_memory()));
  }
}

resolve_result name_engine::result_of(const question& entry) {
  if (is_closed_) return failure(resolve_errc::resolver_destroyed);
  if (const auto result = entry.addresses(); !result.empty()) return select_addresses(result, 0);
  if (entry.key->second != 0) {
    if (entry.has_answer()) return {};
    return failure(entry.failure);
  }
  if (options_.order == lookup_order::dns_then_hosts &&
      entry.failure != std::errc::operation_canceled) {
    if (const auto result = from_hosts(host_key(entry.key->first)))
      return select_addresses(*result, 0);
  }
  return failure(entry.failure);
}

bool name_engine::is_preferred(const endpoint& address) const noexcept {
  const bool is_v4 = address.family() == address_family::ipv4;
  return is_v4 == (options_.addresses == address_choice::ipv4_first ||
                   options_.addresses == address_choice::ipv4_only);
}

// Completes the lookups for which the addresses of one IP version suffice.
void name_engine::complete_first_family(question& entry) noexcept try {
  if (!entry.has_answer()) return;
  const steady_time current_time = loop_.now();
  if (!entry.resolution_delay) entry.first_known = current_time;
  const resolve_result result = select_addresses(entry.addresses(), 0);
  const bool completes_at_once = !result || is_preferred(result->front());
  const bool was_awaited = !entry.waiting_lookups.empty();
  steady_time next_deadline = steady_time::max();
  for (auto position = entry.waiting_lookups.begin(); position != entry.waiting_lookups.end();) {
    waiting_lookup& lookup = *position++;
    if (!lookup.kind.resolution_delay) continue;
    const steady_time deadline =
        gyre::detail::later(entry.first_known, *lookup.kind.resolution_delay);
    if (!completes_at_once && current_time < deadline) {
      next_deadline = std::min(next_deadline, deadline);
      continue;
    }
    lookup.unlink();
    set_result(lookup, entry, result);
    queue_completion(lookup);
  }
  if (was_awaited && entry.waiting_lookups.empty()) {
    --entry.channel->awaited_queries;
    --awaited_in_flight_;
  }
  if (next_deadline == steady_time::max()) return;
  if (!entry.resolution_delay) {
    entry.resolution_delay.emplace(loop_, [this, &entry] {
      complete_first_family(entry);
      cancel_abandoned();
      start_queued();
    });
  }
  entry.resolution_delay->start_at(next_deadline);
} catch (const std::bad_alloc&) {
  return;  // after a failure, the lookups wait for all addresses
}

void name_engine::set_result(waiting_lookup& lookup, const question& entry,
                             const resolve_result& result) noexcept {
  try {
    lookup.result = result;
    if (!result) return;
    for (endpoint& endpoint : *lookup.result) endpoint.set_port(lookup.port);
    if (entry.key->second != 0) lookup.message = entry.queries.front().message;
  } catch (const std::bad_alloc&) {
    lookup.result = failure(no_memory());
  }
}

void name_engine::end_question(question& entry, const resolve_result& result) noexcept {
  trace::detail::record_wait(entry.begin_ticks, trace::detail::event_kind::resolve,
                             entry.key->first);
  if (entry.channel != nullptr) {
    --entry.channel->in_flight;
    if (!entry.waiting_lookups.empty()) {
      --entry.channel->awaited_queries;
      --awaited_in_flight_;
    }
  }
  while (waiting_lookup* lookup = entry.waiting_lookups.pop_front()) {
    set_result(*lookup, entry, result);
    queue_completion(*lookup);
  }
  questions_.erase(questions_.find(*entry.key));
}

void name_engine::servers_processed() {
  cancel_abandoned();
  start_queued();
  deliver_completions();
}

// Calls the functions of the lookups that are completed when this begins. Lookups that are
// completed meanwhile, and the remaining ones if a function throws, follow in the next turn.
void name_engine::deliver_completions() {
  const auto self = shared_from_this();
  auto lookups_left = std::ranges::distance(completed_lookups_.begin(), completed_lookups_.end());
  if (lookups_left > 1 && !delivery_->active()) delivery_->start_after({});
  for (; lookups_left > 0 && !completed_lookups_.empty(); --lookups_left) {
    waiting_lookup& lookup = *completed_lookups_.pop_front();
    --pending_lookups_;
    lookup.complete(lookup);
  }
  if (!closed() && completed_lookups_.empty()) delivery_->cancel();
}

}  // namespace gyre::net::detail
