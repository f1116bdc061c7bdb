// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/name_engine.hpp>

#include <ares.h>
#include <netdb.h>
#include <sys/time.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::net::detail {
namespace {

std::unexpected<std::error_code> failure(std::error_code error) { return std::unexpected(error); }

std::error_code cancelled() { return std::make_error_code(std::errc::operation_canceled); }
std::error_code no_memory() { return std::make_error_code(std::errc::not_enough_memory); }

std::error_code error_of(int status) {
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENONAME: return resolve_errc::host_not_found;
    case ARES_ENODATA: return resolve_errc::no_data;
    case ARES_ETIMEOUT: return resolve_errc::timed_out;
    case ARES_EREFUSED: return resolve_errc::refused;
    case ARES_EBADNAME:
    case ARES_EBADQUERY:
    case ARES_EBADSTR: return resolve_errc::bad_name;
    case ARES_EBADRESP: return resolve_errc::bad_response;
    case ARES_ECONNREFUSED: return resolve_errc::no_server;
    case ARES_ENOMEM: return no_memory();
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION: return cancelled();
    default: return resolve_errc::server_failure;
  }
}

void check(int status, const char* call) {
  if (status == ARES_SUCCESS) return;
  if (status == ARES_ENOMEM) throw std::bad_alloc();
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          std::string(call) + ": " + ares_strerror(status));
}

void require(bool sensible, const char* what) {
  if (!sensible) throw std::invalid_argument(what);
}

// c-ares counts its users without a lock.
void use_library() {
  static const int status = ares_library_init(ARES_LIB_INIT_ALL);
  check(status, "ares_library_init");
}

void set_servers(ares_channel channel, const std::vector<endpoint>& servers) {
  std::vector<ares_addr_port_node> nodes;
  nodes.reserve(servers.size());  // each points to the next
  for (const endpoint& each : servers) {
    ares_addr_port_node node{};
    const ip_address address = each.address();
    node.family = static_cast<int>(each.family());
    node.udp_port = node.tcp_port = each.port();
    std::memcpy(&node.addr, address.bytes().data(), address.bytes().size());
    nodes.push_back(node);
    if (nodes.size() > 1) nodes[nodes.size() - 2].next = &nodes.back();
  }
  check(ares_set_servers_ports(channel, nodes.data()), "ares_set_servers_ports");
}

bool has_one_server(ares_channel channel) {
  ares_addr_port_node* servers = nullptr;
  check(ares_get_servers_ports(channel, &servers), "ares_get_servers_ports");
  const bool one = servers != nullptr && servers->next == nullptr;
  ares_free_data(servers);
  return one;
}

bool is_localhost(std::string_view key) {
  return key == "localhost" || key.ends_with(".localhost");
}

// What c-ares 1.18 does not look at itself.
bool can_be_name(std::string_view host) {
  return !host.empty() && host != "." && host.size() <= 254 && !host.contains('\0') &&
         !host.contains(':');
}

}  // namespace

name_engine::name_engine(event_loop& loop, resolver_options options)
    : loop_(loop),
      order_(options.order),
      addresses_(options.addresses),
      max_in_flight_(options.max_concurrent),
      hosts_(std::move(options.hosts_file)) {
  require(options.tries >= 1, "gyre::net::resolver: tries must be at least 1");
  require(options.max_concurrent >= 1, "gyre::net::resolver: max_concurrent must be at least 1");
  require(options.timeout.count() >= 1 && std::in_range<int>(options.timeout.count()),
          "gyre::net::resolver: the timeout must be at least 1 ms");
  for (const endpoint& each : options.servers) {
    require(each.is_ip() && each.address().scope() == 0,
            "gyre::net::resolver: a server must be an IP endpoint without a scope");
  }
  servers_late_.emplace(loop, [this] { process(ARES_SOCKET_BAD, ARES_SOCKET_BAD); });
  deliver_soon_.emplace(loop, [this] { deliver(); });
  use_library();
  open_channel(options);
}

name_engine::~name_engine() { assert(closed() && watches_.empty() && pending_ == 0); }

// c-ares 1.18 takes the failure of a server for no answer, and in the end says that it could not
// reach any. With several servers that is wanted, as the next one is asked; of a single one we want
// to know what it said.
void name_engine::open_channel(const resolver_options& options) {
  char dns_only[] = "b";
  std::vector<char*> domains;
  ares_options raw{};
  raw.timeout = static_cast<int>(options.timeout.count());
  raw.tries = options.tries;
  raw.lookups = dns_only;
  raw.sock_state_cb = &on_socket_state;
  raw.sock_state_cb_data = this;
  int given = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
              ARES_OPT_SOCK_STATE_CB;
  if (options.ndots) {
    raw.ndots = *options.ndots;
    given |= ARES_OPT_NDOTS;
  }
  if (options.search_domains) {
    for (const std::string& each : *options.search_domains) {
      domains.push_back(const_cast<char*>(each.c_str()));  // c-ares copies it
    }
    raw.domains = domains.data();
    raw.ndomains = static_cast<int>(domains.size());
    given |= ARES_OPT_DOMAINS;
  }
  const auto open = [&] {
    ares_channel channel = nullptr;
    check(ares_init_options(&channel, &raw, given), "ares_init_options");
    std::unique_ptr<ares_channeldata, decltype(&ares_destroy)> owned(channel, &ares_destroy);
    if (!options.servers.empty()) set_servers(channel, options.servers);
    return owned;
  };
  auto channel = open();
  if (has_one_server(channel.get())) {
    raw.flags = ARES_FLAG_NOCHECKRESP;
    channel = open();
  }
  channel_ = channel.release();
}

// Users may start nothing in there, so that it comes to an end.
void name_engine::close() noexcept {
  const auto alive = shared_from_this();
  ares_destroy(std::exchange(channel_, nullptr));
  while (question* asked = queue_.pop_front()) end(*asked, failure(cancelled()));
  servers_late_.reset();
  while (waiting_lookup* lookup = told_.pop_front()) {
    --pending_;
    lookup->tell(*lookup);
  }
  deliver_soon_.reset();
  watches_.clear();
}

bool name_engine::wanted(const ip_address& address) const noexcept {
  if (addresses_ == address_choice::ipv4_only) return address.is_v4();
  if (addresses_ == address_choice::ipv6_only) return address.is_v6();
  return true;
}

resolve_result name_engine::choose(const std::vector<ip_address>& addresses,
                                   std::uint16_t port) const {
  const auto comes_first = [this](const ip_address& each) {
    if (addresses_ == address_choice::ipv4_first) return each.is_v4();
    return addresses_ != address_choice::ipv6_first || each.is_v6();
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

std::optional<resolve_result> name_engine::known(std::string_view host, const service& port) {
  if (!port.port()) return failure(resolve_errc::service_not_found);
  const auto numeric = ip_address::parse(host);
  if (numeric) return choose({*numeric}, *port.port());
  if (numeric.error() == std::errc::no_such_device) return failure(numeric.error());
  if (!can_be_name(host)) return failure(resolve_errc::bad_name);
  const std::string key = host_key(host);
  const bool local = is_localhost(key);
  if (order_ == lookup_order::hosts_then_dns || order_ == lookup_order::hosts_only ||
      (order_ == lookup_order::dns_then_hosts && local)) {
    if (const auto found = from_hosts(key)) return choose(*found, *port.port());
  }
  if (local) return choose({ip_address::loopback_v6(), ip_address::loopback_v4()}, *port.port());
  if (order_ == lookup_order::hosts_only) return failure(resolve_errc::host_not_found);
  return std::nullopt;
}

void name_engine::ask(waiting_lookup& lookup, std::string_view host, const service& port) {
  // A dot at the end keeps search domains away: another question.
  std::string key = host_key(host);
  if (host.ends_with('.')) key += '.';
  const auto [at, is_new] = questions_.try_emplace(std::move(key));
  question& asked = at->second;
  if (is_new) {
    asked.engine = this;
    asked.name = &at->first;
    queue_.push_back(asked);
  } else if (asked.in_flight && asked.waiting.empty()) {
    ++wanted_in_flight_;
  }
  lookup.owner = this;
  lookup.asked = &asked;
  lookup.port = *port.port();
  asked.waiting.push_back(lookup);
  ++pending_;
  ask_servers();
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

// c-ares cannot end a single question, only all of them. So one that nobody waits for runs on,
// unless that holds for all.
bool name_engine::cancel(waiting_lookup& lookup) noexcept {
  if (!lookup.active()) return false;
  lookup.unlink();
  --pending_;
  question* const asked = lookup.asked;
  if (asked == nullptr || !asked->waiting.empty()) return true;
  if (!asked->in_flight) {
    asked->unlink();
    questions_.erase(questions_.find(*asked->name));
  } else if (--wanted_in_flight_ == 0) {
    ares_cancel(channel_);
    ask_servers();
  }
  return true;
}

void name_engine::ask_servers() noexcept {
  ares_addrinfo_hints hints{};
  hints.ai_family = addresses_ == address_choice::ipv4_only   ? AF_INET
                    : addresses_ == address_choice::ipv6_only ? AF_INET6
                                                              : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  while (in_flight_ < max_in_flight_ && !queue_.empty()) {
    question& next = *queue_.pop_front();
    next.in_flight = true;
    ++in_flight_;
    ++wanted_in_flight_;
    // May end the question at once.
    ares_getaddrinfo(channel_, next.name->c_str(), nullptr, &hints, &on_answer, &next);
  }
  wait_for_servers();
}

void name_engine::wait_for_servers() noexcept {
  timeval limit{};
  if (ares_timeout(channel_, nullptr, &limit) == nullptr) {
    servers_late_->cancel();
  } else {
    servers_late_->start_after(std::chrono::seconds{limit.tv_sec} +
                               std::chrono::microseconds{limit.tv_usec});
  }
}

// c-ares opens, uses and closes sockets as it likes. One that cannot be watched times out.
void name_engine::on_socket_state(void* self, int fd, int readable, int writable) noexcept {
  auto& engine = *static_cast<name_engine*>(self);
  const auto interest = (readable != 0 ? readiness::readable : readiness::none) |
                        (writable != 0 ? readiness::writable : readiness::none);
  if (interest == readiness::none) {
    engine.watches_.erase(fd);
  } else {
    engine.watch(fd, interest);
  }
}

void name_engine::watch(int fd, readiness interest) noexcept {
  try {
    const auto ready = [this, fd](readiness what) {
      constexpr readiness broken = readiness::error | readiness::hang_up;
      process(contains(what, readiness::readable | broken) ? fd : ARES_SOCKET_BAD,
              contains(what, readiness::writable | broken) ? fd : ARES_SOCKET_BAD);
    };
    watches_.try_emplace(fd, loop_, fd, ready).first->second.start(interest);
  } catch (...) {
    watches_.erase(fd);
  }
}

// May destroy the watch or timer that calls it.
void name_engine::process(int readable, int writable) {
  ares_process_fd(channel_, readable, writable);
  ask_servers();
  deliver();
}

void name_engine::on_answer(void* asked, int status, int, ares_addrinfo* answer) noexcept {
  const std::unique_ptr<ares_addrinfo, decltype(&ares_freeaddrinfo)> owned(answer,
                                                                           &ares_freeaddrinfo);
  question& ended = *static_cast<question*>(asked);
  name_engine& engine = *ended.engine;
  --engine.in_flight_;
  if (!ended.waiting.empty()) --engine.wanted_in_flight_;
  try {
    engine.end(ended, engine.conclude(ended, status, answer));
  } catch (const std::bad_alloc&) {
    engine.end(ended, failure(no_memory()));
  }
}

resolve_result name_engine::conclude(const question& asked, int status,
                                     const ares_addrinfo* answer) {
  if (status == ARES_SUCCESS) {
    std::vector<ip_address> addresses;
    for (const auto* node = answer->nodes; node != nullptr; node = node->ai_next) {
      addresses.push_back(endpoint::from_sockaddr(node->ai_addr, node->ai_addrlen).address());
    }
    return choose(addresses, 0);
  }
  if (order_ == lookup_order::dns_then_hosts && error_of(status) != cancelled()) {
    if (const auto found = from_hosts(host_key(*asked.name))) return choose(*found, 0);
  }
  return failure(error_of(status));
}

void name_engine::end(question& asked, const resolve_result& result) noexcept {
  while (waiting_lookup* lookup = asked.waiting.pop_front()) {
    try {
      lookup->result = result;
      if (result) {
        for (endpoint& each : *lookup->result) each.set_port(lookup->port);
      }
    } catch (const std::bad_alloc&) {
      lookup->result = failure(no_memory());
    }
    note(*lookup);
  }
  questions_.erase(questions_.find(*asked.name));
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
