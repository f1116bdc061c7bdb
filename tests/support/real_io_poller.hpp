// SPDX-License-Identifier: Apache-2.0
// Base of pollers with a clock of their own, for tests: the poller that GYRE_IO names watches real
// descriptors.
#pragma once

#include <gyre/exec/poller.hpp>

#include <cstddef>
#include <memory>

namespace gyre::test {

/// All members of a poller except now() and wait().
class real_io_poller : public poller {
 public:
  void complete(std::size_t& completed) override {
    real_->set_slice(slice());
    real_->complete(completed);
  }
  void wake() noexcept override { real_->wake(); }
  void watch(readiness_operation& op, readiness interest, trigger how) override {
    real_->watch(op, interest, how);
  }
  void rewatch(readiness_operation& op, readiness interest, trigger how) override {
    real_->rewatch(op, interest, how);
  }
  void unwatch(readiness_operation& op) noexcept override { real_->unwatch(op); }
  std::size_t watched() const noexcept override { return real_->watched(); }
  io::backend* io() noexcept override { return real_->io(); }
  void leave() noexcept override { real_->leave(); }
  void after_fork() override { real_->after_fork(); }
  const char* name() const noexcept override { return real_->name(); }

 protected:
  poller& real() noexcept { return *real_; }

 private:
  std::unique_ptr<poller> real_ = make_poller();
};

}  // namespace gyre::test
