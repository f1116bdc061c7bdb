// SPDX-License-Identifier: Apache-2.0
// The contenders of libpq alone: its pipeline mode on a bare loop, a prepared statement, parameters
// and results in binary. Input is read whenever there is some, so that neither end waits for the
// other to read.
#pragma once

#include <lab/experiments/postgres_select/workload.hpp>
#include <lab/harness/network/socket.hpp>

#include <libpq-fe.h>

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lab::postgres {

/// The end of an implicit transaction, which is the extent of an error.
enum class sync_point : std::uint8_t {
  each,  ///< each statement has its own, as statements of independent callers should
  turn   ///< the statements of a turn share one: when one fails, so do those after it
};

/// A connection in pipeline mode.
template <sync_point Sync>
class libpq_connection {
 public:
  /// Errors: throws std::runtime_error.
  explicit libpq_connection(const server_address& server)
      : connection_(PQconnectdb(server.as_libpq().c_str()), &PQfinish) {
    check(PQstatus(connection_.get()) == CONNECTION_OK);
    PGresult* const prepared = PQprepare(connection_.get(), statement, select_text, 0, nullptr);
    const bool is_prepared = PQresultStatus(prepared) == PGRES_COMMAND_OK;
    PQclear(prepared);
    check(is_prepared);
    check(PQsetnonblocking(connection_.get(), 1) == 0);
    check(PQenterPipelineMode(connection_.get()) == 1);
  }

  int fd() const { return PQsocket(connection_.get()); }

  void ask(caller& self) {
    const std::uint32_t id = htonl(self.ask());
    const std::array<const char*, 1> values{reinterpret_cast<const char*>(&id)};
    const std::array<int, 1> sizes{sizeof id};
    const std::array<int, 1> binary{1};
    check(PQsendQueryPrepared(connection_.get(), statement, 1, values.data(), sizes.data(),
                              binary.data(), 1) == 1);
    asking_.push_back(&self);
    ++unsynced_;
    if constexpr (Sync == sync_point::each) sync();
  }

  /// Reads what has come. Returns the number of callers that ask no more.
  std::size_t read() {
    check(PQconsumeInput(connection_.get()) == 1);
    std::size_t ended = 0;
    // Between the results of two statements, PQgetResult() returns null.
    while ((!asking_.empty() || syncs_ > 0) && PQisBusy(connection_.get()) == 0) {
      PGresult* const result = PQgetResult(connection_.get());
      if (result == nullptr) continue;
      if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
        --syncs_;
      } else {
        caller& self = *asking_.front();
        asking_.pop_front();
        if (take(self, result)) {
          again_.push_back(&self);
        } else {
          ++ended;
        }
      }
      PQclear(result);
    }
    for (caller* const each : again_) ask(*each);
    again_.clear();
    return ended;
  }

  /// Sends what it can. Returns whether some is left.
  bool flush() {
    if (Sync == sync_point::turn && unsynced_ > 0) sync();
    const int left = PQflush(connection_.get());
    check(left >= 0);
    return left == 1;
  }

 private:
  static constexpr const char* statement = "item";

  void check(bool is_right) const {
    if (!is_right) {
      throw std::runtime_error(std::string("libpq: ") + PQerrorMessage(connection_.get()));
    }
  }

  void sync() {
#ifdef LIBPQ_HAS_SEND_PIPELINE_SYNC
    check(PQsendPipelineSync(connection_.get()) == 1);
#else
    check(PQpipelineSync(connection_.get()) == 1);  // sends at once
#endif
    ++syncs_;
    unsynced_ = 0;
  }

  static bool take(caller& self, const PGresult* result) {
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1 ||
        PQgetlength(result, 0, 0) != sizeof(std::uint32_t)) {
      return self.take_failure();
    }
    std::uint32_t id = 0;
    std::memcpy(&id, PQgetvalue(result, 0, 0), sizeof id);
    return self.take(
        ntohl(id), {PQgetvalue(result, 0, 1), static_cast<std::size_t>(PQgetlength(result, 0, 1))});
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  std::deque<caller*> asking_;
  std::vector<caller*> again_;
  std::size_t unsynced_ = 0;
  std::size_t syncs_ = 0;
};

template <sync_point Sync>
struct libpq_client {
  static void serve(const server_address& server, std::span<caller> callers) {
    const int epoll = network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    std::vector<std::unique_ptr<watched>> connections;
    for (std::uint32_t n = 0; n < server.connections; ++n) {
      connections.push_back(std::make_unique<watched>(server));
      watch(epoll, *connections.back(), EPOLL_CTL_ADD, EPOLLIN);
    }
    for (std::size_t n = 0; n < callers.size(); ++n) {
      connections[n % connections.size()]->connection.ask(callers[n]);
    }
    for (const auto& each : connections) flush(epoll, *each);
    for (std::size_t running = callers.size(); running > 0;) {
      std::array<epoll_event, 64> events;
      const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int n = 0; n < ready; ++n) {
        const epoll_event& event = events[static_cast<std::size_t>(n)];
        auto& each = *static_cast<watched*>(event.data.ptr);
        if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
          running -= each.connection.read();
        flush(epoll, each);
      }
    }
    close(epoll);
  }

 private:
  struct watched {
    explicit watched(const server_address& server) : connection(server) {}

    libpq_connection<Sync> connection;
    std::uint32_t events = EPOLLIN;
  };

  static void watch(int epoll, watched& each, int operation, std::uint32_t events) {
    each.events = events;
    epoll_event wanted{.events = events, .data = {.ptr = &each}};
    network::checked(epoll_ctl(epoll, operation, each.connection.fd(), &wanted), "epoll_ctl");
  }

  static void flush(int epoll, watched& each) {
    const std::uint32_t wanted = each.connection.flush() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (wanted != each.events) watch(epoll, each, EPOLL_CTL_MOD, wanted);
  }
};

inline std::string libpq_version() {
  const int number = PQlibVersion();
  return std::to_string(number / 10000) + '.' + std::to_string(number % 10000);
}

}  // namespace lab::postgres
