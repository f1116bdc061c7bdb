// SPDX-License-Identifier: Apache-2.0
// The floors on io_uring: event loops without anything that makes them a library, written as one
// would in C with liburing.
#pragma once

#include <lab/harness/network/session.hpp>
#include <lab/harness/network/unsent_bytes.hpp>
#include <lab/harness/network/uring.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

namespace lab::network {

/// The direction of a completion, which is the last bit of its user_data; the other bits are the
/// address of a connection.
enum class uring_event : std::uint64_t { incoming = 0, outgoing = 1 };

/// Dispatches each completion to its connection, for ever.
template <class Connection>
[[noreturn]] void run_uring(uring& ring) {
  constexpr auto outgoing = static_cast<std::uint64_t>(uring_event::outgoing);
  for (;;) {
    ring.turn([](const io_uring_cqe& done) {
      auto& at = *reinterpret_cast<Connection*>(done.user_data & ~outgoing);
      if ((done.user_data & outgoing) == 0) {
        at.incoming(done);
      } else {
        at.outgoing(done);
      }
    });
  }
}

/// One request at a time: a receive into the connection's own buffer, a send of all those bytes,
/// and again. All requests of a turn are one system call. A client that echoes has two buffers, as
/// it reads while it sends: otherwise both sides could wait for ever. Answers to bytes that arrive
/// during a send are copied.
template <std::size_t BufferBytes>
class bare_uring_plain {
 public:
  static void probe() { uring::probe(); }

  template <any_session Session>
  [[noreturn]] static void run(std::span<Session> sessions) {
    uring ring;
    std::deque<connection<Session>> connections;
    for (Session& each : sessions) connections.emplace_back(ring, each).begin();
    run_uring<connection<Session>>(ring);
  }

 private:
  template <class Session>
  class connection {
   public:
    connection(uring& ring, Session& served)
        : ring_(ring), served_(served), memory_(new std::byte[buffers * BufferBytes]) {}

    void begin() {
      receive();
      sending_kept_.append(served_.first());
      send(sending_kept_.left());
    }

    void incoming(const io_uring_cqe& done) {
      if (done.res <= 0) served_.lost();
      const auto answer = served_.received(buffer().first(static_cast<std::size_t>(done.res)));
      if (answer.empty()) return receive();
      if (unsent_.empty()) {
        send(answer);
        if (!overlaps) return;
        filling_ = 1 - filling_;
      } else {
        kept_.append(answer);
      }
      receive();
    }

    void outgoing(const io_uring_cqe& done) {
      if (done.res < 0) served_.lost();
      unsent_ = unsent_.subspan(static_cast<std::size_t>(done.res));
      if (!unsent_.empty()) return send(unsent_);
      const bool answered = sending_kept_.empty();
      sending_kept_.drop(sending_kept_.left().size());
      sending_kept_.swap(kept_);
      send(sending_kept_.left());
      if (!overlaps && answered) receive();
    }

   private:
    static constexpr bool overlaps = Session::begins && Session::echoes;
    static constexpr std::size_t buffers = overlaps ? 2 : 1;

    std::span<std::byte> buffer() {
      return std::span(memory_.get(), buffers * BufferBytes)
          .subspan(filling_ * BufferBytes, BufferBytes);
    }

    void receive() {
      io_uring_sqe& request = ring_.request();
      io_uring_prep_recv(&request, served_.fd(), buffer().data(), BufferBytes, 0);
      complete(request, uring_event::incoming);
    }

    void send(std::span<const std::byte> data) {
      unsent_ = data;
      if (data.empty()) return;
      io_uring_sqe& request = ring_.request();
      io_uring_prep_send(&request, served_.fd(), data.data(), data.size(),
                         MSG_NOSIGNAL | MSG_WAITALL);
      complete(request, uring_event::outgoing);
    }

    void complete(io_uring_sqe& request, uring_event as) {
      request.user_data = reinterpret_cast<std::uintptr_t>(this) | static_cast<std::uint64_t>(as);
    }

    uring& ring_;
    Session& served_;
    std::unique_ptr<std::byte[]> memory_;
    std::size_t filling_ = 0;            // index of the receive buffer
    std::span<const std::byte> unsent_;  // rest of the data in transmission
    unsent_bytes sending_kept_;          // storage of unsent_ when it is not in a buffer
    unsent_bytes kept_;                  // to be sent after unsent_
  };
};

/// One multishot request for everything that a connection receives, into buffers which all
/// connections share, and a system call for each send: an answer leaves at once, while it is in the
/// processor's cache, and its buffer is free again. Bytes that the kernel does not accept are
/// copied, and sent when there is room; receiving goes on meanwhile. docs/lab/network.md compares
/// these sends with requests that send.
template <unsigned Buffers, unsigned BufferBytes>
class bare_uring_multishot {
 public:
  static void probe() { uring::probe(); }

  template <any_session Session>
  [[noreturn]] static void run(std::span<Session> sessions) {
    uring ring;
    shared_buffers buffers(ring);
    std::deque<connection<Session>> connections;
    for (Session& each : sessions) connections.emplace_back(ring, buffers, each).begin();
    run_uring<connection<Session>>(ring);
  }

 private:
  using shared_buffers = provided_buffers<Buffers, BufferBytes>;

  template <class Session>
  class connection {
   public:
    connection(uring& ring, shared_buffers& buffers, Session& served)
        : ring_(ring), buffers_(buffers), served_(served) {}

    void begin() {
      receive(IORING_RECVSEND_POLL_FIRST);
      send(served_.first());
    }

    void incoming(const io_uring_cqe& done) {
      // No buffer was free. Buffers are free again in the next turn, first for the connections that
      // had none in this one.
      if (done.res == -ENOBUFS) {
        return receive(std::exchange(had_buffer_, false) ? IORING_RECVSEND_POLL_FIRST : 0);
      }
      if (done.res <= 0) served_.lost();
      had_buffer_ = true;
      send(served_.received(buffers_.filled(done)));
      buffers_.give(shared_buffers::id(done));
      if ((done.flags & IORING_CQE_F_MORE) == 0) receive();
    }

    void outgoing(const io_uring_cqe&) {
      rest_.drop(send_some(rest_.left()));
      if (!rest_.empty()) await_room();
    }

   private:
    void receive(std::uint16_t flags = 0) {
      io_uring_sqe& request = ring_.request();
      io_uring_prep_recv_multishot(&request, served_.fd(), nullptr, 0, 0);
      request.flags |= IOSQE_BUFFER_SELECT;
      request.buf_group = shared_buffers::group;
      request.ioprio |= flags;
      complete(request, uring_event::incoming);
    }

    void send(std::span<const std::byte> data) {
      const bool waiting = !rest_.empty();
      if (!waiting) data = data.subspan(send_some(data));
      rest_.append(data);
      if (!waiting && !rest_.empty()) await_room();
    }

    std::size_t send_some(std::span<const std::byte> data) {
      if (data.empty()) return 0;
      const ssize_t sent = ::send(served_.fd(), data.data(), data.size(), MSG_NOSIGNAL);
      if (sent >= 0) return static_cast<std::size_t>(sent);
      if (errno != EAGAIN) served_.lost();
      return 0;
    }

    void await_room() {
      io_uring_sqe& request = ring_.request();
      io_uring_prep_poll_add(&request, served_.fd(), POLLOUT);
      complete(request, uring_event::outgoing);
    }

    void complete(io_uring_sqe& request, uring_event as) {
      request.user_data = reinterpret_cast<std::uintptr_t>(this) | static_cast<std::uint64_t>(as);
    }

    uring& ring_;
    shared_buffers& buffers_;
    Session& served_;
    unsent_bytes rest_;
    bool had_buffer_ = false;  // since the last ENOBUFS
  };
};

}  // namespace lab::network
