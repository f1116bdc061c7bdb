// SPDX-License-Identifier: Apache-2.0
// resolver: an asynchronous DNS resolver on a loop, for addresses of hosts and other records.
//
//     gyre::net::resolver names(loop);
//
//     auto found = co_await names.resolve("example.org", "https");  // in a coroutine, or
//
//     auto pending = names.resolve("example.org", 443, [&](auto found) { … });
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/detail/waiting_lookup.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolve_error.hpp>
#include <gyre/net/resolver_options.hpp>
#include <gyre/net/service.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/stoppable_wait.hpp>

#include <coroutine>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

namespace detail {

/// Returns the records of an answer, or the error of `outcome`. For srv_result and text_result.
template <class Result>
Result decode_records(const waiting_lookup& lookup, const resolve_result& outcome);

struct callback_lookup;
class resolve_awaiter;
template <class Result>
class record_awaiter;
struct resolver_access;

}  // namespace detail

/// A handle of a lookup with a callback, which its destructor cancels (RAII).
///
/// Thread-safety: none; belongs to the thread of the resolver's loop.
/// Lifetime: may outlive the resolver.
class [[nodiscard]] lookup {
 public:
  lookup() noexcept = default;

  /// Destroys the callback without calling it; false if it was called before.
  bool cancel() noexcept;
  /// Lets the lookup continue without this object.
  void detach() noexcept;
  /// Whether the callback is still to be called.
  bool active() const noexcept;

 private:
  friend class resolver;
  struct cancelling_delete {
    void operator()(detail::callback_lookup* lookup_state) const noexcept;
  };
  explicit lookup(detail::callback_lookup* lookup_state) noexcept : lookup_(lookup_state) {}
  std::unique_ptr<detail::callback_lookup, cancelling_delete> lookup_;
};

/// An asynchronous resolver (c-ares) on a loop, which watches its sockets and timeouts.
/// Simultaneous lookups of one name share their queries.
///
/// A numeric address needs no server; "localhost" and names that end in ".localhost" give the
/// loopback addresses, unless the hosts file has them (RFC 6761). Other names come from the hosts
/// file, and from name servers: A and AAAA are asked for together, and once more by TCP if UDP cuts
/// the answer off. If a server fails, the next one is asked; if there is only one server, its error
/// is the lookup's. If only one of A and AAAA fails, the addresses of the other are the result.
/// Answers are cached (see dns_cache_options), by the loop's clock.
///
/// Timeouts of queries are in real time, even on a loop whose poller has a clock of its own (a
/// test's virtual time). The constructor, and lookups when resolv.conf or the hosts file has
/// changed, read these files, which blocks. A child of fork() may use the resolver only if no
/// lookup was under way, and after it has called the loop's after_fork_in_child().
///
/// Thread-safety: the coroutine forms may be called on any thread; all other members belong to the
/// loop's thread, or one other thread while none runs the loop.
/// Lifetime: must not outlive its loop. The destructor completes all lookups with
/// resolve_errc::resolver_destroyed: it calls their callbacks, which must neither use the resolver
/// nor throw, and has waiting coroutines resumed on their executors.
/// Errors: a resolve_errc, std::errc::not_enough_memory. Callbacks get them as values; coroutines
/// as std::system_error, or as values by as_expected().
/// Complexity: a numeric address needs no system call; another name needs one for each of the two
/// files (statx(2)), and no query while the cache has its answer. A callback costs an allocation.
class resolver {
 public:
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  using callback = move_only_function<void(resolve_result)>;

  /// Throws std::system_error if resolv.conf cannot be read (if there is none, the server is
  /// 127.0.0.1); std::invalid_argument for options that make no sense; std::bad_alloc.
  explicit resolver(event_loop& loop, resolver_options options = {});
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;
  ~resolver();

  /// Looks up `host`, and calls `handler` once, with its endpoints at `port`, at least one, or an
  /// error: on the loop's thread, after resolve() has returned, unless the returned lookup is
  /// cancelled or dropped before: keep it. `handler` may destroy the resolver and its lookup; its
  /// exceptions go to the loop's on_exception. Throws std::bad_alloc.
  lookup resolve(std::string_view host, service port, callback handler);

  /// Returns an awaitable of the endpoints, at least one. May be awaited on any thread and
  /// executor, and resumes the coroutine on its own executor. A stop request, from any thread, ends
  /// the wait at once with gyre::operation_cancelled; for a time limit use with_timeout(). A
  /// waiting coroutine may be destroyed on the loop's thread, if the loop is its executor and no
  /// stop was requested.
  [[nodiscard]] detail::resolve_awaiter resolve(std::string host, service port);

  /// Looks up the servers of a service, such as "_imaps._tcp.example.org", in the order in which to
  /// try them: by priority, and by chance in proportion to their weights (RFC 2782). Names are
  /// complete: search domains, hosts file and numbers do not apply. Otherwise does what resolve()
  /// does; resolve_errc::no_data also for the target ".", which means that there is no such
  /// service.
  [[nodiscard]] detail::record_awaiter<srv_result> resolve_srv(std::string name);
  lookup resolve_srv(std::string_view name, move_only_function<void(srv_result)> handler);
  /// Looks up texts as resolve_srv() looks up servers; the parts of a text are joined.
  [[nodiscard]] detail::record_awaiter<text_result> resolve_txt(std::string name);
  lookup resolve_txt(std::string_view name, move_only_function<void(text_result)> handler);
  /// Looks up the names of an address. The owner of the address chooses them: trust a name only if
  /// it resolves to the address.
  [[nodiscard]] detail::record_awaiter<text_result> resolve_ptr(const ip_address& address);
  lookup resolve_ptr(const ip_address& address, move_only_function<void(text_result)> handler);

  /// Returns the number of lookups under way. Called on the loop's thread.
  std::size_t pending() const noexcept;
  /// Returns the number of names of cancelled lookups whose queries still run. Called on the loop's
  /// thread.
  std::size_t abandoned() const noexcept;

  /// Drops all cached answers. Called on the loop's thread.
  void clear_cache() noexcept;
  /// Returns the counters of the cache. Called on the loop's thread.
  dns_cache_metrics cache_metrics() const noexcept;

 private:
  friend struct detail::resolver_access;
  lookup begin(std::unique_ptr<detail::callback_lookup> new_lookup, std::string_view host,
               service port);
  std::shared_ptr<detail::name_engine> engine_;
};
/// Adds the counts of the resolver's cache to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const resolver& source);

namespace detail {

/// Waits for the addresses of a name; a stoppable_wait whose event executor is the engine's loop.
class resolve_awaiter : gyre::detail::stoppable_wait, waiting_lookup {
 public:
  resolve_awaiter(std::shared_ptr<name_engine> engine, std::string host, service destination,
                  lookup_kind requested_kind = {}) noexcept
      : waiting_lookup(&on_complete),
        engine_(std::move(engine)),
        host_(std::move(host)),
        service_(destination) {
    kind = requested_kind;
  }
  // May be moved only before it is awaited.
  resolve_awaiter(resolve_awaiter&& other) noexcept
      : resolve_awaiter(std::move(other.engine_), std::move(other.host_), other.service_,
                        other.kind) {}
  resolve_awaiter& operator=(const resolve_awaiter&) = delete;
  virtual ~resolve_awaiter();

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    if constexpr (gyre::detail::records_backtraces) {
      gyre::detail::set_holder(coroutine, engine_executor());
    }
    const task_context& context = gyre::detail::context_of(coroutine);
    return wait(coroutine, context) || gyre::detail::gives_way(context, coroutine);
  }
  std::vector<endpoint> await_resume();
  resolve_result result();

 protected:
  /// Returns what result() returns, but every error as a value.
  resolve_result take_result() noexcept;
  [[noreturn]] void throw_failure(std::error_code error) const;
  const waiting_lookup& answered() const noexcept { return *this; }

 private:
  executor& engine_executor() const noexcept;
  bool wait(std::coroutine_handle<> coroutine, const task_context& context);
  bool start() noexcept override;
  bool cancel() noexcept override;
  static void on_complete(waiting_lookup& lookup);

  std::shared_ptr<name_engine> engine_;
  std::string host_;
  service service_;
};

/// Waits for the records of a name.
template <class Result>
class record_awaiter final : public resolve_awaiter {
 public:
  using resolve_awaiter::resolve_awaiter;

  Result result() { return decode_records<Result>(answered(), resolve_awaiter::result()); }
  Result::value_type await_resume() {
    Result records = decode_records<Result>(answered(), take_result());
    if (!records) throw_failure(records.error());
    return std::move(*records);
  }
};

/// Gives connect() and tcp_client access to a resolver's engine.
struct resolver_access {
  /// Resolves as resolve() does, but completes with the addresses of the IP version that is known
  /// first: at once for the preferred version (IPv6, unless the resolver's options say IPv4), and
  /// otherwise if the addresses of the other version have not come after `resolution_delay`.
  static resolve_awaiter resolve_first_family(resolver& names, std::string host, service port,
                                              duration resolution_delay);
  static lookup resolve_first_family(resolver& names, std::string_view host, service port,
                                     duration resolution_delay, resolver::callback handler);
};

}  // namespace detail

}  // namespace gyre::net
