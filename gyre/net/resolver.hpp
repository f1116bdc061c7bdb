// SPDX-License-Identifier: Apache-2.0
// From the names of hosts to their addresses, without blocking the loop.
//
//     gyre::net::resolver names(loop);
//     auto found = co_await names.resolve("example.org", "https");    // in a coroutine, or
//     auto asked = names.resolve("example.org", 443, [](auto found) { … });
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolve_error.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/stop_token.hpp>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

/// Who is asked for a name, and who if the first does not know.
enum class lookup_order { hosts_then_dns, dns_then_hosts, hosts_only, dns_only };

/// Which addresses of a host are given, and in which order.
enum class address_choice {
  as_sorted,   ///< all, the best first by RFC 6724; those of the hosts file in its order
  ipv4_first,  ///< the same, but those of IPv4 before the others
  ipv6_first,
  ipv4_only,  ///< the others are not even asked for
  ipv6_only,
};

/// How a resolver asks; fixed when it is made.
struct resolver_options {
  /// Name servers, asked in this order: IP endpoints without a scope. None: those of
  /// /etc/resolv.conf.
  std::vector<endpoint> servers = {};
  /// How long a server has for its first answer; each round over all servers doubles it.
  std::chrono::milliseconds timeout{2000};
  /// Rounds; at least 1. With one server the defaults give up after 14 s.
  int tries = 3;
  lookup_order order = lookup_order::hosts_then_dns;
  /// Read again when it has changed.
  std::string hosts_file = "/etc/hosts";
  address_choice addresses = address_choice::as_sorted;
  /// Domains in which names with fewer than `ndots` dots are looked for first, and others
  /// afterwards. Not given: as /etc/resolv.conf says.
  std::optional<std::vector<std::string>> search_domains = {};
  std::optional<int> ndots = {};
  /// Names that are asked for at the same time, at least 1; others wait. Those nobody waits for any
  /// longer count until they are answered, or nobody waits for any of them.
  std::size_t max_concurrent = 256;
};

/// A port: a number, or a name that /etc/services has ("https"; any protocol's). Looking up a name
/// reads that file.
class service {
 public:
  service(std::uint16_t port) noexcept : port_(port) {}
  template <std::convertible_to<std::string_view> Text>
  service(const Text& name) : port_(find(name)) {}

  /// Nothing if there is no service of that name.
  std::optional<std::uint16_t> port() const noexcept { return port_; }

 private:
  static std::optional<std::uint16_t> find(std::string_view name);
  std::optional<std::uint16_t> port_;
};

using resolve_result = std::expected<std::vector<endpoint>, std::error_code>;

namespace detail {

class name_engine;
struct question;

/// What waits for a name: in a question's list, or in the list of those to be told.
struct waiting_lookup : intrusive_list_node {
  using function = void (*)(waiting_lookup&);
  explicit waiting_lookup(function told) noexcept : tell(told) {}

  bool active() const noexcept { return is_linked(); }

  const function tell;  // the loop's thread, once, no longer linked
  name_engine* owner = nullptr;
  question* asked = nullptr;  // null when it has its result
  std::uint16_t port = 0;
  resolve_result result;
};

struct callback_lookup;
class resolve_awaiter;

}  // namespace detail

/// A lookup that was begun with a callback. Its destructor cancels it. Belongs to the resolver's
/// loop, and may outlive the resolver.
class [[nodiscard]] lookup {
 public:
  lookup() noexcept = default;
  lookup(lookup&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}
  lookup& operator=(lookup&& other) noexcept {
    lookup old(std::move(*this));
    owned_ = std::exchange(other.owned_, nullptr);
    return *this;
  }
  ~lookup() { cancel(); }

  /// Ends it: the callback is destroyed, and never called. True if it had not been called.
  bool cancel() noexcept;
  /// Lets it run on by itself.
  void detach() noexcept;
  /// Whether the callback is still to be called.
  bool active() const noexcept;

 private:
  friend class resolver;
  explicit lookup(detail::callback_lookup* owned) noexcept : owned_(owned) {}
  detail::callback_lookup* owned_ = nullptr;
};

/// Looks up the names of hosts. Stands on c-ares, whose sockets and times its loop watches; what
/// coroutines and callbacks ask for at the same time under one name is asked for once.
///
/// A numeric address is its own answer, without any server; so are "localhost" and all that ends
/// in ".localhost", the loopback addresses, unless the hosts file has them (RFC 6761). Other names
/// come from the hosts file, and from name servers: A and AAAA are asked for together, and what is
/// cut off by UDP once more by TCP. With one server its error is what you are told; of several, the
/// next one is asked after a failure. One of A and AAAA is enough, if the other fails.
///
/// All members but the coroutine form belong to the loop's thread (or the loop's owner while no
/// thread runs it). It must not outlive its loop. Its destructor ends all lookups, which are told
/// std::errc::operation_canceled there and then; none of them may use it any more, nor throw.
///
/// Its time is the machine's, whatever the loop's poller says. Making it and asking for the name of
/// a service read small files of the system, asking for a host does when they have changed. After
/// fork() the child may go on with it if no lookup was under way and the loop's
/// after_fork_in_child() was called before; otherwise it should leave it alone, and make its own.
class resolver {
 public:
  using callback = move_only_function<void(resolve_result)>;

  /// Reads /etc/resolv.conf, and throws std::system_error if that fails in other ways than by not
  /// being there, std::invalid_argument for options that make no sense, std::bad_alloc.
  explicit resolver(event_loop& loop, resolver_options options = {});
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;
  ~resolver();

  /// Calls `found` with the endpoints of `host` at `port`, at least one, or the error: a
  /// resolve_errc or std::errc::not_enough_memory. Exactly once, on the loop's thread, never before
  /// resolve() returns; unless the lookup that is returned, and must be kept, is cancelled. `found`
  /// may destroy the resolver and its lookup; what it throws goes to the loop's on_exception.
  /// Throws std::bad_alloc.
  lookup resolve(std::string_view host, service port, callback found);

  /// Awaited, gives the endpoints, at least one, or throws std::system_error with the error. From
  /// any thread, and any executor, where the coroutine goes on. Asked to stop, it ends with
  /// std::errc::operation_canceled, at once and from any thread. May be destroyed while it waits,
  /// on the loop's thread, if that is its executor, unless a stop was requested.
  [[nodiscard]] detail::resolve_awaiter resolve(std::string host, service port);

  /// Lookups under way. The loop's thread.
  std::size_t pending() const noexcept;

 private:
  std::shared_ptr<detail::name_engine> engine_;
};

namespace detail {

/// Waits for a name. Lookups belong to the loop; the coroutine and whoever stops it may be on other
/// threads, and post the awaiter there. It ends as a sleep_awaiter does: by the last who leaves.
class resolve_awaiter : operation, waiting_lookup {
 public:
  resolve_awaiter(std::shared_ptr<name_engine> engine, std::string host, service at) noexcept
      : operation(&run),
        waiting_lookup(&found),
        engine_(std::move(engine)),
        host_(std::move(host)),
        service_(at) {}
  // Before it is awaited.
  resolve_awaiter(resolve_awaiter&& other) noexcept
      : resolve_awaiter(std::move(other.engine_), std::move(other.host_), other.service_) {}
  resolve_awaiter& operator=(const resolve_awaiter&) = delete;
  ~resolve_awaiter();

  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    home_.waiting = awaiting;
    return wait(gyre::detail::context_of(awaiting));
  }
  std::vector<endpoint> await_resume();
  resolve_result result() noexcept;

 private:
  struct on_stop {
    resolve_awaiter* self;
    void operator()() const noexcept { self->stop(); }
  };
  // Who is still to touch the awaiter.
  enum party : std::uint8_t { starting = 1, resolving = 2, cancelling = 4 };

  bool wait(const task_context& context);
  bool start() noexcept;
  void stop() noexcept;
  void cancel() noexcept;
  bool last_of(unsigned leaving) noexcept;
  void go_on() noexcept;
  static void run(operation& posted);
  static void found(waiting_lookup& told);

  std::shared_ptr<name_engine> engine_;
  std::string host_;
  service service_;
  gyre::detail::resumption home_;
  executor* where_ = nullptr;
  inplace_stop_token token_;
  std::optional<inplace_stop_callback<on_stop>> callback_;
  gyre::detail::atomic<std::uint8_t> parties_{0};
  bool started_ = false;
};

}  // namespace detail
}  // namespace gyre::net
