// SPDX-License-Identifier: Apache-2.0
// operation: work in flight, a node that its owner embeds where it already has memory (a coroutine
// frame, a connection, the stack), so that posting it allocates nothing.
#pragma once

#include <gyre/base/intrusive_queue.hpp>

namespace gyre {

/// Work that an executor runs once for each post. Derive from it, pass the function to run, and
/// post it with `loop.post(op)`.
///
/// Lifetime: must stay alive and in place until it has run, and must not be posted again before it
/// runs. Its function may destroy it, or post it again.
///
///     struct greet : gyre::operation {
///       greet() : operation([](operation& self) { static_cast<greet&>(self).hello(); }) {}
///       void hello();
///     };
class operation : public intrusive_node {
 public:
  using function = void (*)(operation&);

  explicit operation(function run) noexcept : execute_(run) {}
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  /// Runs the operation on the calling thread.
  void execute() { execute_(*this); }

 protected:
  ~operation() = default;

 private:
  function execute_;
};

namespace detail {

/// An operation as a callable of one pointer, which every inbox stores in place.
struct run_operation {
  operation* op;
  void operator()() const { op->execute(); }
};

}  // namespace detail
}  // namespace gyre
