// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/dns_channel.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/read_file.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/name_engine.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <ares.h>

#include <arpa/nameser.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

namespace gyre::net::detail {
namespace {

// RFC 1035's limit of 255 bytes, as text with a final dot.
constexpr std::size_t max_name_size = 254;

void check(int status, const char* function_name) {
  if (status == ARES_SUCCESS) return;
  if (status == ARES_ENOMEM) throw std::bad_alloc();
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          std::string(function_name) + ": " + ares_strerror(status));
}

// Initialises c-ares once, because c-ares counts its users without a lock.
void use_library() {
  static const int status = ares_library_init(ARES_LIB_INIT_ALL);
  check(status, "ares_library_init");
}

constexpr std::uint16_t dns_port = 53;

// Returns the loopback address for a name server at the wildcard address, which means this machine,
// as for other programs. The server replies from the loopback address, and c-ares drops replies
// from an address other than that of the query.
ip_address reachable(const ip_address& server) noexcept {
  if (!server.is_any()) return server;
  return server.is_v4() ? ip_address::loopback_v4() : ip_address::loopback_v6();
}

void set_servers(ares_channel channel, const std::vector<endpoint>& servers) {
  std::vector<ares_addr_port_node> nodes;
  nodes.reserve(servers.size());  // each node points to the next one, so none may move
  for (const endpoint& server : servers) {
    ares_addr_port_node node{};
    const ip_address address = reachable(server.address());
    node.family = static_cast<int>(server.family());
    node.udp_port = node.tcp_port = server.port();
    std::memcpy(&node.addr, address.bytes().data(), address.bytes().size());
    nodes.push_back(node);
    if (nodes.size() > 1) nodes[nodes.size() - 2].next = &nodes.back();
  }
  check(ares_set_servers_ports(channel, nodes.data()), "ares_set_servers_ports");
}

bool has_one_server(ares_channel channel) {
  ares_addr_port_node* servers = nullptr;
  check(ares_get_servers_ports(channel, &servers), "ares_get_servers_ports");
  const bool has_single_server = servers != nullptr && servers->next == nullptr;
  ares_free_data(servers);
  return has_single_server;
}

std::vector<endpoint> read_name_servers(const std::string& path) {
  return parse_name_servers(gyre::detail::read_file(path.c_str()).value_or(std::string()));
}

// The functions below replace c-ares's own system calls. c-ares 1.18 writes to TCP connections by
// writev(2), so that a name server could raise SIGPIPE, which ends a program by default. Like
// c-ares, they make sockets that are non-blocking and close-on-exec, without Nagle's algorithm. A
// failed call leaves its error in errno for c-ares.

ares_ssize_t count_of(const io::result& outcome) noexcept {
  return outcome ? static_cast<ares_ssize_t>(outcome.count()) : -1;
}

ares_socket_t open_socket(int family, int type, int protocol, void*) {
  auto result = system::open_socket(family, type, protocol);
  if (!result) return ARES_SOCKET_BAD;
  // A failure to set this option is ignored: queries then only take longer.
  if (type == SOCK_STREAM) system::set_option(result->get(), system::tcp_nodelay, 1);
  return result->release();
}

int close_socket(ares_socket_t fd, void*) {
  unique_fd(fd).reset();
  return 0;
}

// Connects to the server with its scope, which c-ares cannot store.
int connect_socket(ares_socket_t fd, const sockaddr* server, ares_socklen_t size, void* servers) {
  endpoint address;
  std::memcpy(address.data(), server, std::min(size, endpoint::capacity()));
  address.resize(std::min(size, endpoint::capacity()));
  const auto is_server = [&address](const endpoint& candidate) {
    return candidate.port() == address.port() &&
           std::ranges::equal(candidate.address().bytes(), address.address().bytes());
  };
  const auto& known_servers = *static_cast<const std::vector<endpoint>*>(servers);
  const auto match =
      address.is_ip() ? std::ranges::find_if(known_servers, is_server) : known_servers.end();
  const io::result outcome = match == known_servers.end() ? system::connect(fd, server, size)
                                                          : system::connect(fd, *match);
  return outcome ? 0 : -1;
}

ares_ssize_t receive(ares_socket_t fd, void* buffer, std::size_t size, int /*flags*/,
                     sockaddr* sender, ares_socklen_t* sender_size, void*) {
  return count_of(system::receive_without_waiting(fd, {static_cast<std::byte*>(buffer), size},
                                                  sender, sender_size));
}

ares_ssize_t send(ares_socket_t fd, const iovec* pieces, int count, void*) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);  // sendmsg(2) only reads the pieces
  message.msg_iovlen = static_cast<std::size_t>(count);
  return count_of(system::send_without_waiting(fd, message));
}

constexpr ares_socket_functions socket_functions{&open_socket, &close_socket, &connect_socket,
                                                 &receive, &send};

}  // namespace

std::vector<std::string> search_list::names_for(std::string_view host) const {
  if (host.ends_with('.')) return {std::string(host)};
  std::vector<std::string> names;
  const bool tries_host_first = std::ranges::count(host, '.') >= ndots;
  if (tries_host_first) names.emplace_back(host);
  for (const std::string& domain : domains) {
    std::string name(host);
    if (domain != ".") (name += '.') += domain;
    if (name.size() <= max_name_size) names.push_back(std::move(name));
  }
  if (!tries_host_first) names.emplace_back(host);
  return names;
}

std::vector<endpoint> parse_name_servers(std::string_view text) {
  std::vector<endpoint> servers;
  while (!text.empty()) {
    std::string_view line = take_until(text, "\n");
    line = take_until(line, "#;");
    if (next_word(line) != "nameserver") continue;
    const std::string_view server = next_word(line);
    if (const auto address = ip_address::parse(server)) {
      servers.emplace_back(*address, dns_port);
    } else if (const auto with_port = endpoint::parse(server); with_port && with_port->is_ip()) {
      servers.push_back(*with_port);
    }
  }
  return servers;
}

dns_channel::dns_channel(name_engine& owner, const resolver_options& options)
    : owner_(owner),
      query_timeout_(owner.loop(), [this] { process(ARES_SOCKET_BAD, ARES_SOCKET_BAD); }) {
  use_library();
  open(options);
}

dns_channel::~dns_channel() { ares_destroy(channel_); }

// Opens the channel. c-ares 1.18 treats the failure of a server as a missing answer, queries the
// next server, and in the end reports that it could reach none. With a single server, the server's
// own error is reported instead.
void dns_channel::open(const resolver_options& options) {
  servers_ = options.servers.empty() ? read_name_servers(options.resolv_conf) : options.servers;
  char dns_only[] = "b";
  std::vector<char*> domains;
  ares_options cares_options{};
  // c-ares doubles the timeout in each round, and its int must not overflow.
  constexpr int day = 24 * 60 * 60 * 1000;
  cares_options.timeout =
      gyre::detail::whole_units<std::chrono::milliseconds>(options.timeout, day);
  cares_options.tries = options.tries;
  cares_options.lookups = dns_only;
  cares_options.sock_state_cb = &on_socket_state;
  cares_options.sock_state_cb_data = this;
  cares_options.resolvconf_path =
      const_cast<char*>(options.resolv_conf.c_str());  // c-ares copies the path
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
             ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF;
  if (options.ndots) {
    cares_options.ndots = *options.ndots;
    mask |= ARES_OPT_NDOTS;
  }
  if (options.search_domains) {
    for (const std::string& domain : *options.search_domains) {
      domains.push_back(const_cast<char*>(domain.c_str()));  // c-ares copies the domain
    }
    cares_options.domains = domains.data();
    cares_options.ndomains = static_cast<int>(domains.size());
    mask |= ARES_OPT_DOMAINS;
  }
  using owned_channel = std::unique_ptr<ares_channeldata, decltype(&ares_destroy)>;
  const auto open_channel = [&] {
    ares_channel channel = nullptr;
    check(ares_init_options(&channel, &cares_options, mask), "ares_init_options");
    owned_channel channel_owner(channel, &ares_destroy);
    ares_set_socket_functions(channel, &socket_functions, &servers_);
    if (!servers_.empty()) set_servers(channel, servers_);
    return channel_owner;
  };
  owned_channel channel = open_channel();
  if (has_one_server(channel.get())) {
    cares_options.flags = ARES_FLAG_NOCHECKRESP;
    channel = open_channel();
  }
  channel_ = channel.get();
  read_search_list();
  static_cast<void>(channel.release());
}

void dns_channel::read_search_list() {
  ares_options cares_options{};
  int mask = 0;
  check(ares_save_options(channel_, &cares_options, &mask), "ares_save_options");
  const std::unique_ptr<ares_options, decltype(&ares_destroy_options)> options_owner(
      &cares_options, &ares_destroy_options);
  search_.ndots = cares_options.ndots;
  const auto count = static_cast<std::size_t>(std::max(cares_options.ndomains, 0));
  for (const char* domain : std::span(cares_options.domains, count))
    search_.domains.emplace_back(domain);
}

void dns_channel::query(const std::string& name, record_type type, callback handler,
                        void* context) noexcept {
  ares_query(channel_, name.c_str(), ns_c_in, static_cast<int>(type), handler, context);
}

void dns_channel::cancel_all() noexcept {
  ares_cancel(channel_);
  wait_for_servers();
}

void dns_channel::wait_for_servers() noexcept {
  timeval limit{};
  if (ares_timeout(channel_, nullptr, &limit) == nullptr) {
    query_timeout_.cancel();
  } else {
    query_timeout_.start_after(std::chrono::seconds{limit.tv_sec} +
                               std::chrono::microseconds{limit.tv_usec});
  }
}

// Called by c-ares when it opens or closes a socket. Queries on a socket that the loop cannot watch
// time out.
void dns_channel::on_socket_state(void* self, int fd, int readable, int writable) noexcept {
  auto& channel = *static_cast<dns_channel*>(self);
  const auto interest = (readable != 0 ? readiness::readable : readiness::none) |
                        (writable != 0 ? readiness::writable : readiness::none);
  if (interest == readiness::none) {
    channel.watches_.erase(fd);
    return;
  }
  try {
    const auto report = [&channel, fd](readiness events) {
      constexpr readiness end_events = readiness::error | readiness::hang_up;
      channel.process(contains(events, readiness::readable | end_events) ? fd : ARES_SOCKET_BAD,
                      contains(events, readiness::writable | end_events) ? fd : ARES_SOCKET_BAD);
    };
    channel.watches_.try_emplace(fd, channel.owner_.loop(), fd, report)
        .first->second.start(interest);
  } catch (...) {
    channel.watches_.erase(fd);
  }
}

// Processes events of c-ares. The call may destroy the channel, and with it the watch or timer
// whose callback makes the call.
void dns_channel::process(int readable, int writable) {
  ares_process_fd(channel_, readable, writable);
  wait_for_servers();
  owner_.servers_processed();
}

}  // namespace gyre::net::detail
