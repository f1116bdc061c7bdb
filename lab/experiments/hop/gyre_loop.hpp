// SPDX-License-Identifier: Apache-2.0
// gyre's loop with a given inbox, as a contender of hop in both forms.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/exec/loop.hpp>
#include <lab/experiments/hop/workload.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace lab::hop {

template <class Inbox>
class gyre_loop {
 public:
  void run() { loop_.run(); }
  void stop() { loop_.stop(); }
  std::optional<std::uint64_t> wakeups() const { return loop_.metrics().wakeups; }

 protected:
  gyre::basic_loop<Inbox> loop_;
};

template <class Inbox>
class gyre_callable : public gyre_loop<Inbox> {
 public:
  using token = hop::token;

  void send(token& passed) {
    this->loop_.post([&passed] { passed.arrive(); });
  }
};

template <class Inbox>
class gyre_intrusive : public gyre_loop<Inbox> {
 public:
  struct token : hop::token, gyre::operation {
    token() : operation([](operation& self) { static_cast<token&>(self).arrive(); }) {}
  };

  void send(token& passed) { this->loop_.post(static_cast<gyre::operation&>(passed)); }
};

/// The main() of a gyre contender.
template <class Inbox>
int gyre_main(int argc, const char* const* argv, libraries versions = {}) {
  return contender_main<gyre_callable<Inbox>, gyre_intrusive<Inbox>>(argc, argv,
                                                                     std::move(versions));
}

}  // namespace lab::hop
