// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/connection_listing.hpp>

#include <gyre/net/connection_metrics.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/with_timeout.hpp>

#include <exception>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

/// The connections that the loops have reported for one request, shared by the functions that they
/// call.
class connection_listing::answer {
 public:
  explicit answer(std::size_t max_entries) noexcept : max_entries_(max_entries) {}

  /// Is set when no loop can add a connection any more.
  manual_reset_event completion_event;

  void add(const std::string& server, net::tcp_connection& connection) noexcept {
    const std::lock_guard lock(mutex_);
    if (was_taken_) return;
    if (result_.connections.size() >= max_entries_) {
      result_.is_complete = false;
      return;
    }
    try {
      const net::connection_metrics counts = connection.metrics();
      result_.connections.push_back({.server = server,
                                     .id = connection.id(),
                                     .peer = connection.peer_endpoint().to_string(),
                                     .bytes_received = counts.bytes_received,
                                     .bytes_sent = counts.bytes_sent,
                                     .pending_output = connection.pending_output()});
    } catch (const std::exception&) {
      // Memory was missing, or the peer's address is no longer known.
      result_.is_complete = false;
    }
  }
  void set_incomplete() noexcept {
    const std::lock_guard lock(mutex_);
    result_.is_complete = false;
  }
  listed_connections take() noexcept {
    const std::lock_guard lock(mutex_);
    was_taken_ = true;
    return std::move(result_);
  }

 private:
  const std::size_t max_entries_;
  std::mutex mutex_;  // guards the members below
  listed_connections result_;
  bool was_taken_ = false;
};

std::uint64_t connection_listing::add(std::string name, net::tcp_server& server) {
  const std::lock_guard lock(mutex_);
  servers_.emplace(++last_number_, shown_server{std::move(name), &server});
  return last_number_;
}

void connection_listing::remove(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  servers_.erase(number);
}

task<listed_connections> connection_listing::list(std::shared_ptr<connection_listing> self,
                                                  std::size_t max_entries, duration limit) {
  const auto collection = std::make_shared<answer>(max_entries);
  {
    // The loops hold copies of `alive`, whose deleter runs when the last of them is done, or was
    // destroyed with its task.
    const std::shared_ptr<answer> share_of_answer(
        collection.get(), [collection](answer* result) { result->completion_event.set(); });
    const std::lock_guard lock(self->mutex_);
    for (const auto& [number, server] : self->servers_) {
      const bool was_accepted = server.server->for_each(
          [share_of_answer, name = server.name](net::tcp_connection& connection) {
            share_of_answer->add(name, connection);
          });
      if (!was_accepted) collection->set_incomplete();
    }
  }
  auto wait = as_expected(with_timeout(collection->completion_event.wait(), limit));
  const auto end = co_await std::move(wait);
  if (!end) {
    if (end.error() != std::errc::timed_out) throw std::system_error(end.error());
    collection->set_incomplete();
  }
  co_return collection->take();
}

}  // namespace gyre::http::detail
