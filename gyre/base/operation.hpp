// SPDX-License-Identifier: Apache-2.0
// operation: an intrusive work item, which its owner embeds where it already has memory (a
// coroutine frame, a connection, the stack), so that posting it allocates nothing.
#pragma once

#include <gyre/base/intrusive_queue.hpp>

#include <cstdint>

namespace gyre {

/// A work item that an executor runs once for each post. Derive from it, pass the function to run,
/// and post the item with `loop.post(op)`.
///
/// Thread-safety: any thread, one at a time; a post happens before the run.
/// Lifetime: must stay alive and in place from the post until its function is called, which may
/// destroy or repost it, or until its executor is destroyed. Must not be posted twice at once.
/// Errors: the executor treats an exception of the function like one of a posted callable.
///
///     struct greet : gyre::operation {
///       greet() : operation([](operation& self) { static_cast<greet&>(self).hello(); }) {}
///       void hello();
///     };
class operation : public intrusive_node {
 public:
  using function = void (*)(operation&);

  explicit operation(function run) noexcept : execute_(run) {}
  operation& operator=(operation&&) = delete;

  /// Runs the operation on the calling thread.
  void execute() { execute_(*this); }
  /// Returns the address of the code that execute() calls, for reports.
  std::uintptr_t code() const noexcept { return reinterpret_cast<std::uintptr_t>(execute_); }
  /// Returns whether `run` is the function that execute() calls.
  bool executes(function run) const noexcept { return execute_ == run; }

 protected:
  ~operation() = default;

 private:
  function execute_;
};

namespace detail {

/// A callable that runs an operation. It is one pointer, which every inbox stores in place.
struct run_operation {
  operation* op;
  void operator()() const { op->execute(); }
};

}  // namespace detail
}  // namespace gyre
