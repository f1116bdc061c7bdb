// SPDX-License-Identifier: Apache-2.0
// A loop on epoll whose files are on io_uring: tests file operations on a ring separately from the
// poller on io_uring.
//
//     gyre::loop loop(std::make_unique<gyre::test::file_ring_poller>());
#pragma once

#include <gyre/exec/poller.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/file_ring.hpp>
#include <gyre/io/epoll_poller.hpp>
#include <gyre/io/file_service.hpp>

#include <cstddef>
#include <optional>
#include <system_error>

namespace gyre::test {

/// An epoll_poller that watches a file_ring, which it makes on the first file operation.
class file_ring_poller final : public poller {
 public:
  /// `entries`: the size of the ring.
  explicit file_ring_poller(unsigned entries = 64) : backend_(*this), entries_(entries) {}
  ~file_ring_poller() override { part_from_ring(); }

  /// The ring, or null while there is none.
  io::detail::file_ring* ring() noexcept { return ring_ ? &*ring_ : nullptr; }

  steady_time now() const noexcept override { return epoll_.now(); }
  std::size_t wait(steady_time deadline) override {
    const bool pending = ring_ && ring_->pending();
    return epoll_.wait(pending ? steady_time::min() : deadline) + (pending ? 1 : 0);
  }
  void complete(std::size_t& completed) override {
    epoll_.complete(completed);
    if (ring_ && ring_->pending()) ring_->reap(completed);
  }
  void wake() noexcept override { epoll_.wake(); }
  void watch(readiness_operation& op, readiness interest, trigger how) override {
    epoll_.watch(op, interest, how);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger how) override {
    epoll_.rewatch(op, interest, how);
  }
  void unwatch(readiness_operation& op) noexcept override { epoll_.unwatch(op); }
  std::size_t watched() const noexcept override {
    return epoll_.watched() + (ring_ ? ring_->under_way() : 0);
  }
  io::backend* io() noexcept override { return &backend_; }
  void after_fork() override {
    epoll_.after_fork();  // first: otherwise the parent's epoll would be used
    part_from_ring();
    if (!ring_) return;
    ring_->recreate_ring_in_child();
    join_ring();
  }
  const char* name() const noexcept override { return "epoll with a ring for files"; }

 private:
  struct watch_of_ring : readiness_operation {
    explicit watch_of_ring(file_ring_poller& of)
        : readiness_operation(of.ring_->fd(), &on_readiness), self(&of) {}
    static void on_readiness(readiness_operation& ready, readiness) {
      std::size_t completed = 0;
      static_cast<watch_of_ring&>(ready).self->ring_->reap(completed);
    }
    file_ring_poller* self;
  };

  class files_backend final : public io::backend {
   public:
    explicit files_backend(file_ring_poller& of) noexcept : of_(of) {}
    void attach(io::handle& served) override { epoll().attach(served); }
    void detach(io::handle& served) noexcept override { epoll().detach(served); }
    std::optional<io::result> start(io::request& asked) noexcept override {
      return epoll().start(asked);
    }
    io::result attempt(io::request& asked) noexcept override { return epoll().attempt(asked); }
    bool has_arrivals(const io::handle& target) noexcept override {
      return epoll().has_arrivals(target);
    }
    bool end_receiving_ahead(io::handle& source) noexcept override {
      return epoll().end_receiving_ahead(source);
    }
    std::size_t share_left(io::direction way) const noexcept override {
      return epoll().share_left(way);
    }
    void charge(std::size_t bytes) noexcept override { epoll().charge(bytes); }
    std::optional<io::result> cancel(io::request& asked) noexcept override {
      return epoll().cancel(asked);
    }
    std::optional<io::result> start_receiving(
        io::handle& source, io::shared_receive_request& request) noexcept override {
      return epoll().start_receiving(source, request);
    }
    void stop_receiving(io::handle& source) noexcept override { epoll().stop_receiving(source); }
    io::receive_memory& memory() noexcept override { return epoll().memory(); }
    io::file_service* files() noexcept override { return of_.made_ring(); }

   private:
    io::backend& epoll() const noexcept { return *of_.epoll_.io(); }
    file_ring_poller& of_;
  };

  io::detail::file_ring* made_ring() noexcept try {
    if (!ring_) {
      ring_.emplace(entries_);
      join_ring();
    }
    return &*ring_;
  } catch (const std::system_error&) {
    ring_.reset();
    return nullptr;
  }
  void join_ring() {
    watch_.emplace(*this);
    epoll_.watch(*watch_, readiness::readable, trigger::level);
  }
  void part_from_ring() noexcept {
    if (watch_) epoll_.unwatch(*watch_);
    watch_.reset();
  }

  io::epoll_poller epoll_;
  files_backend backend_;
  unsigned entries_;
  std::optional<io::detail::file_ring> ring_;
  std::optional<watch_of_ring> watch_;
};

}  // namespace gyre::test
