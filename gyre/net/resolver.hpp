// SPDX-License-Identifier: Apache-2.0
// From the names of hosts to their addresses, without blocking the loop.
//
//     gyre::net::resolver names(loop);
//
//     auto found = co_await names.resolve("example.org", "https");  // in a coroutine, or
//
//     auto asked = names.resolve("example.org", 443, [&](auto found) { … });
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/dns_records.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolve_error.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
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

/// What a resolver keeps of what servers answered, so that it need not ask again: for as long as they
/// allow (the TTL of records, and for names and records that do not exist what RFC 2308 says), and no
/// longer than this. What failed otherwise is not kept.
struct dns_cache_options {
  /// Memory, roughly; what was not used for longest makes room. Zero: nothing is kept.
  std::size_t bytes = std::size_t{256} << 10;
  std::chrono::seconds longest_positive = std::chrono::hours{1};
  std::chrono::seconds longest_negative = std::chrono::minutes{5};
};

struct dns_cache_metrics {
  std::size_t entries = 0;
  std::size_t bytes = 0;
  std::uint64_t hits = 0;    ///< lookups for which nobody had to be asked
  std::uint64_t misses = 0;  ///< questions for servers
};

/// How a resolver asks; fixed when it is made.
struct resolver_options {
  /// Name servers, asked in this order: IP endpoints without a scope. None: those of
  /// resolv.conf.
  std::vector<endpoint> servers = {};
  /// How long a server has for its first answer; each round over all servers doubles it.
  std::chrono::milliseconds timeout{2000};
  /// Rounds; at least 1. With one server the defaults give up after 14 s.
  int tries = 3;
  lookup_order order = lookup_order::hosts_then_dns;
  /// Both are read again when they have changed, for which a lookup looks; then what is kept is
  /// forgotten, and questions that were asked before are left to the servers of before.
  std::string resolv_conf = "/etc/resolv.conf";
  std::string hosts_file = "/etc/hosts";
  address_choice addresses = address_choice::as_sorted;
  /// Domains in which names with fewer than `ndots` dots are looked for first, and others
  /// afterwards. Not given: as resolv.conf says.
  std::optional<std::vector<std::string>> search_domains = {};
  std::optional<int> ndots = {};
  /// Names that are asked for at the same time, at least 1; others wait. A lookup that is cancelled
  /// gives its place to another at once. Its queries run on until they are answered or time out, or
  /// nobody waits for anything; some eight times as many names as this may be abandoned so, then
  /// further ones wait for them.
  std::size_t max_concurrent = 256;
  dns_cache_options cache = {};
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
using srv_result = std::expected<std::vector<srv_record>, std::error_code>;
/// Texts of TXT records, or names of PTR records.
using text_result = std::expected<std::vector<std::string>, std::error_code>;

namespace detail {

class name_engine;
struct question;

struct lookup_kind {
  // Told addresses of one IP version without waiting for the other's: at once if that version is
  // preferred, else after so long (RFC 8305, section 3). Not given: told all addresses.
  std::optional<std::chrono::nanoseconds> resolution_delay = {};
  std::uint16_t records = 0;  // of that type, instead of addresses
};

/// What waits for a name: in a question's list, or in the list of those to be told.
struct waiting_lookup : intrusive_list_node {
  using function = void (*)(waiting_lookup&);
  explicit waiting_lookup(function told) noexcept : tell(told) {}

  bool active() const noexcept { return is_linked(); }

  const function tell;  // the loop's thread, once, no longer linked
  name_engine* owner = nullptr;
  question* asked = nullptr;  // null when it has its result
  std::uint16_t port = 0;
  lookup_kind kind = {};
  resolve_result result;               // of records nothing but the error
  std::vector<unsigned char> message;  // of these the answer
};

struct callback_lookup;
class resolve_awaiter;
template <class Result>
class record_awaiter;
struct resolver_access;

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
/// next one is asked after a failure. One of A and AAAA is enough, if the other fails. Answers are
/// kept for as long as they allow (see dns_cache_options), by the loop's clock.
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
  /// operation_cancelled, at once and from any thread. May be destroyed while it waits,
  /// on the loop's thread, if that is its executor, unless a stop was requested.
  [[nodiscard]] detail::resolve_awaiter resolve(std::string host, service port);

  /// The servers of a service, such as "_imaps._tcp.example.org", in the order in which they are to be
  /// tried: by priority, and by chance as their weights say (RFC 2782). Names are taken as they are,
  /// without search domains; neither hosts file nor numbers are looked at. Otherwise as resolve();
  /// resolve_errc::no_data also if the service is said not to be there.
  [[nodiscard]] detail::record_awaiter<srv_result> resolve_srv(std::string name);
  lookup resolve_srv(std::string_view name, move_only_function<void(srv_result)> found);
  /// The same for texts; a text of several parts is given as one.
  [[nodiscard]] detail::record_awaiter<text_result> resolve_txt(std::string name);
  lookup resolve_txt(std::string_view name, move_only_function<void(text_result)> found);
  /// The names of an address. They are what its owner says; believe one only if resolve() gives the
  /// address for it.
  [[nodiscard]] detail::record_awaiter<text_result> resolve_ptr(const ip_address& address);
  lookup resolve_ptr(const ip_address& address, move_only_function<void(text_result)> found);

  /// Lookups under way. The loop's thread.
  std::size_t pending() const noexcept;
  /// Names that servers are still asked for, though their lookups were cancelled. The loop's thread.
  std::size_t abandoned() const noexcept;

  /// Forgets all that servers answered. The loop's thread.
  void clear_cache() noexcept;
  /// The loop's thread.
  dns_cache_metrics cache_metrics() const noexcept;

 private:
  friend struct detail::resolver_access;
  lookup begin(std::unique_ptr<detail::callback_lookup> begun, std::string_view host, service port);
  std::shared_ptr<detail::name_engine> engine_;
};

namespace detail {

/// Waits for a name. Lookups belong to the loop; the coroutine and whoever stops it may be on other
/// threads, and post the awaiter there. It ends as a sleep_awaiter does: by the last who leaves.
class resolve_awaiter : operation, waiting_lookup {
 public:
  resolve_awaiter(std::shared_ptr<name_engine> engine, std::string host, service at,
                  lookup_kind wanted = {}) noexcept
      : operation(&run),
        waiting_lookup(&found),
        engine_(std::move(engine)),
        host_(std::move(host)),
        service_(at) {
    kind = wanted;
  }
  // Before it is awaited.
  resolve_awaiter(resolve_awaiter&& other) noexcept
      : resolve_awaiter(std::move(other.engine_), std::move(other.host_), other.service_,
                        other.kind) {}
  resolve_awaiter& operator=(const resolve_awaiter&) = delete;
  ~resolve_awaiter();

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    home_.waiting = awaiting;
#if GYRE_ASYNC_BACKTRACE
    gyre::detail::set_holder(awaiting, engine_executor());
#endif
    const task_context& context = gyre::detail::context_of(awaiting);
    return wait(context) || gyre::detail::gives_way(context, awaiting);
  }
  std::vector<endpoint> await_resume();
  resolve_result result();

 protected:
  /// As result(), with every error as a value.
  resolve_result outcome() noexcept;
  [[noreturn]] void throw_failure(std::error_code error) const;
  const lookup_kind& lookup_for() const noexcept { return kind; }
  const std::vector<unsigned char>& answer() const noexcept { return message; }

 private:
#if GYRE_ASYNC_BACKTRACE
  const executor& engine_executor() const noexcept;
#endif
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
  const task_context* context_ = nullptr;  // once it is awaited
  std::optional<inplace_stop_callback<on_stop>> callback_;
  gyre::detail::atomic<std::uint8_t> parties_{0};
  bool started_ = false;
};

void decode_records(std::uint16_t type, const std::vector<unsigned char>& message,
                    srv_result& into);
void decode_records(std::uint16_t type, const std::vector<unsigned char>& message,
                    text_result& into);

/// Waits for records.
template <class Result>
class record_awaiter : public resolve_awaiter {
 public:
  using resolve_awaiter::resolve_awaiter;

  Result result() { return decoded(resolve_awaiter::result()); }
  Result::value_type await_resume() {
    Result records = decoded(outcome());
    if (!records) throw_failure(records.error());
    return std::move(*records);
  }

 private:
  Result decoded(const resolve_result& told) {
    Result records;
    if (told) {
      decode_records(lookup_for().records, answer(), records);
    } else {
      records = std::unexpected(told.error());
    }
    return records;
  }
};

/// What connect() and tcp_client do with a resolver and users do not.
struct resolver_access {
  /// As resolve(), but gives the addresses of the version that is known first: at once if it is the
  /// preferred one (IPv6, unless the resolver's options say IPv4), else when those of the other have
  /// not come after `resolution_delay`.
  static resolve_awaiter resolve_first_family(resolver& names, std::string host, service port,
                                              std::chrono::nanoseconds resolution_delay);
  static lookup resolve_first_family(resolver& names, std::string_view host, service port,
                                     std::chrono::nanoseconds resolution_delay,
                                     resolver::callback found);
};

}  // namespace detail
}  // namespace gyre::net
