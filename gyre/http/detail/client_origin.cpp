// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_origin.hpp>

#include <gyre/http/detail/has_http2.hpp>
#include <gyre/http/detail/http1_client_stream.hpp>
#include <gyre/http/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_any.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr const char* waiting_for_stream = "http::client";
// The pause between failed attempts to add a connection while others serve.
constexpr std::chrono::seconds pause_of_additions{1};

}  // namespace

client_origin::waiter::waiter(client_origin& origin) : origin_(origin) {
  if (origin.waiter_count_ >= origin.options_.waiting_per_host) {
    throw std::system_error(make_error_code(io::errc::waiting_limit), waiting_for_stream);
  }
  ++origin.waiter_count_;
  origin.waiters_.push_back(*this);
}

client_origin::waiter::~waiter() {
  if (is_linked()) unlink();
  --origin_.waiter_count_;
}

client_origin::client_origin(event_loop& loop, const client_options& options,
                             version initial_version, connect_function connect)
    : loop_(loop),
      options_(options),
      version_(initial_version),
      pool_(
          loop,
          [this, connect = std::move(connect)] { return connect(version_ != version::http1_only); },
          net::connection_pool_options{
              .max_open = options.connections_per_host,
              .max_waiting = options.waiting_per_host,
              .idle_timeout = options.idle_timeout,
              .max_lifetime = options.max_lifetime,
              // The pool needs no time limit, as the function that connects limits each of its
              // phases.
              .connect_timeout = duration::max(),
          }),
      additions_(loop) {}

client_origin::~client_origin() {
  if constexpr (has_http2) {
    for (const connection_pointer& connection : connections_) connection->leave_owner();
  }
}

// --- Streams ---

task<client_stream_pointer> client_origin::acquire(std::shared_ptr<client_origin> self,
                                                   bool needs_new) {
  if (self->speaks_http1() || !has_http2) {
    auto acquire_task = self->acquire_http1(needs_new);
    client_stream_pointer stream = co_await std::move(acquire_task);
    if (stream != nullptr) co_return stream;
  }
  if (self->waiters_.empty()) {
    if (client_stream_pointer stream = self->try_open()) co_return stream;
  }
  auto wait =
      as_result(stop_when(self->wait_for_stream(needs_new), self->close_source_.get_token()));
  auto result = co_await std::move(wait);
  if (result) co_return std::move(*result);
  std::exception_ptr error = std::move(result).error();
  if (self->is_closed_) error = net::detail::error_of_closed(std::move(error), waiting_for_stream);
  co_await gyre::detail::fail_with(error);
  std::unreachable();
}

// Returns null if the server has chosen HTTP/2 on a new connection.
task<client_stream_pointer> client_origin::acquire_http1(bool needs_new) {
  auto acquire_task = needs_new ? net::detail::acquire_new(pool_) : pool_.acquire();
  client_lease lease = co_await std::move(acquire_task);
  if (!lease->is_http2())
    co_return client_stream_pointer(new http1_client_stream(std::move(lease)));
  adopt(std::move(lease));
  co_return nullptr;
}

// Waits in the order of arrival until a connection has room. Meanwhile adds a connection, if the
// options allow one more.
task<client_stream_pointer> client_origin::wait_for_stream(bool needs_new) {
  waiter own_waiter(*this);
  bool has_lost_connection = false;
  on_room();
  while (own_waiter.stream == nullptr) {
    if (is_closed_) {
      throw std::system_error(make_error_code(io::errc::closed), waiting_for_stream);
    }
    if (speaks_http1()) {
      own_waiter.unlink();
      auto acquire_task = acquire_http1(needs_new);
      client_stream_pointer stream = co_await std::move(acquire_task);
      if (stream != nullptr) co_return stream;
      waiters_.push_front(own_waiter);
      on_room();
      continue;
    }
    if (!may_add_connection()) {
      co_await own_waiter.change_event.wait();
      own_waiter.change_event.reset();
      continue;
    }
    auto add_task = additions_.run({}, [self = shared_from_this(), needs_new](std::monostate) {
      return add_connection(self, needs_new);
    });
    auto race = when_any(as_result(std::move(add_task)), own_waiter.change_event.wait());
    auto first_end = co_await std::move(race);
    own_waiter.change_event.reset();
    const auto& result = std::get<0>(first_end.values);
    if (own_waiter.stream != nullptr || !result) continue;
    if (!*result) {
      if (!has_connection()) std::rethrow_exception(result->error());
      next_addition_ = gyre::detail::later(loop_.now(), pause_of_additions);
    } else if (!speaks_http1() && !has_connection() && std::exchange(has_lost_connection, true)) {
      // A server that ends each connection at once must not be connected to for ever.
      throw std::system_error(make_error_code(errc::no_response), "connecting");
    }
  }
  co_return std::move(own_waiter.stream);
}

// Adds a connection, which serves any of the waiting requests.
task<> client_origin::add_connection(std::shared_ptr<client_origin> self, bool needs_new) {
  auto acquire_task = needs_new ? net::detail::acquire_new(self->pool_) : self->pool_.acquire();
  client_lease lease = co_await std::move(acquire_task);
  if (lease->is_http2()) {
    self->adopt(std::move(lease));
  } else {
    if (self->version_ != version::http1_only) self->version_ = version::http1;
    if (self->waiters_.empty()) {
      lease.give_back();
    } else {
      self->give_to_oldest(client_stream_pointer(new http1_client_stream(std::move(lease))));
    }
    self->wake_all();
  }
}

// Begins HTTP/2 on a connection.
void client_origin::adopt(client_lease lease) {
  if constexpr (has_http2) {
    if (version_ != version::http1_only) version_ = version::http2;
    connections_.reserve(connections_.size() + 1);
    connections_.push_back(
        http2_client_connection::begin(std::move(lease), loop_, options_, *this));
    on_room();
  }
}

// Opens a stream of HTTP/2. Returns null if no connection has room for one.
client_stream_pointer client_origin::try_open() {
  if constexpr (has_http2) {
    if (version_ != version::http2) return nullptr;
    for (const connection_pointer& connection : connections_) {
      if (connection->has_room()) return connection->open_stream();
    }
  }
  return nullptr;
}

client_stream_pointer client_origin::try_open_websocket() {
  if constexpr (has_http2) {
    if (version_ != version::http2 || !waiters_.empty()) return nullptr;
    const auto with_websockets = static_cast<std::size_t>(std::ranges::count_if(
        connections_,
        [](const connection_pointer& connection) { return connection->has_websockets(); }));
    const bool may_bind_another = with_websockets + 1 < options_.connections_per_host;
    for (const connection_pointer& connection : connections_) {
      if (!connection->has_room_for_websocket()) continue;
      if (connection->has_websockets() || may_bind_another) return connection->open_stream();
    }
  }
  return nullptr;
}

bool client_origin::has_connection() const noexcept {
  if constexpr (has_http2) {
    return std::ranges::any_of(connections_, [](const connection_pointer& connection) {
      return !connection->has_ended();
    });
  }
  return false;
}

bool client_origin::may_add_connection() const {
  if (!has_connection()) return true;
  return connections_.size() < options_.connections_per_host && loop_.now() >= next_addition_;
}

void client_origin::give_to_oldest(client_stream_pointer stream) noexcept {
  waiter& oldest_waiter = waiters_.front();
  oldest_waiter.stream = std::move(stream);
  oldest_waiter.unlink();
  oldest_waiter.change_event.set();
}

void client_origin::wake_all() noexcept {
  for (waiter& sleeper : waiters_) sleeper.change_event.set();
}

void client_origin::require_http1() noexcept {
  version_ = version::http1_only;
  wake_all();
}

// --- Events of connections of HTTP/2 ---

void client_origin::on_room() noexcept {
  while (!waiters_.empty()) {
    client_stream_pointer stream;
    try {
      stream = try_open();
    } catch (const std::bad_alloc&) {
      return;
    }
    if (stream == nullptr) return;
    give_to_oldest(std::move(stream));
  }
}

void client_origin::on_ended() noexcept { wake_all(); }

void client_origin::on_closed(http2_client_connection& connection) noexcept {
  const auto is_closed = [&](const connection_pointer& candidate) {
    return candidate.get() == &connection;
  };
  connection.leave_owner();
  std::erase_if(connections_, is_closed);
  wake_all();
}

// --- The end ---

void client_origin::close() noexcept {
  if (std::exchange(is_closed_, true)) return;
  pool_.close();
  if constexpr (has_http2) {
    for (const connection_pointer& connection : connections_) connection->leave_owner();
  }
  connections_.clear();
  close_source_.request_stop();
}

std::size_t client_origin::idle() const noexcept {
  std::size_t count = pool_.metrics().idle;
  if constexpr (has_http2) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        connections_, [](const connection_pointer& connection) { return connection->is_idle(); }));
  }
  return count;
}

}  // namespace gyre::http::detail
