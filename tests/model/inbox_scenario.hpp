// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the models of the inboxes: tasks that leave receipts, and a consumer.
#pragma once

#include <gyre/exec/inbox/inbox.hpp>
#include <tests/model/model.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace gyre::model {

/// The order in which the consumer ran tasks, in plain memory: a missing synchronisation of the
/// inbox shows as a data race.
class receipts {
 public:
  void take(int id) { order_.at(count_++) = id; }
  std::size_t count() const { return count_; }
  /// The position at which the task `id` ran; it must have run exactly once.
  std::size_t position_of(int id) const {
    std::size_t position = count_;
    for (std::size_t i = 0; i < count_; ++i) {
      if (order_.at(i) != id) continue;
      assert_that(position == count_, "no task runs twice");
      position = i;
    }
    assert_that(position < count_, "no task is lost");
    return position;
  }
  bool in_order(int earlier, int later) const { return position_of(earlier) < position_of(later); }

 private:
  std::array<int, 8> order_{};
  std::size_t count_ = 0;
};

/// A task with a payload, which the consumer reads and which is freed whether or not the task runs.
class receipt_task {
 public:
  receipt_task(receipts& received, int id) : received_(&received), id_(new int(id)) {}
  receipt_task(receipt_task&& other) noexcept
      : received_(other.received_), id_(std::exchange(other.id_, nullptr)) {}
  receipt_task& operator=(receipt_task&&) = delete;
  ~receipt_task() { delete id_; }
  void operator()() { received_->take(*id_); }

 private:
  receipts* received_;
  int* id_;
};

/// A receipt_task of two cells: the consumer checks the bytes in the place of the second cell's
/// atomic.
class large_receipt_task : public receipt_task {
 public:
  large_receipt_task(receipts& received, int id) : receipt_task(received, id) { words_.fill(id); }
  void operator()() {
    for (const long part : words_) {
      assert_that(part == words_.front(), "the callable is whole");
    }
    receipt_task::operator()();
  }

 private:
  std::array<long, 4> words_{};
};

template <typename Inbox>
void post(Inbox& inbox, receipts& received, int id) {
  inbox.push(receipt_task(received, id));
}
template <typename Inbox>
void post_large(Inbox& inbox, receipts& received, int id) {
  inbox.push(large_receipt_task(received, id));
}

/// Runs tasks until `tasks` of them have left receipts.
template <typename Inbox>
void run_until_received(Inbox& inbox, const receipts& received, std::size_t tasks) {
  while (received.count() < tasks) {
    inbox::batch some(tasks);
    inbox.run(some);
    if (some.ran() == 0) yield();
  }
}

/// Tasks of one and of two cells in an inbox whose segments have an odd number of them.
template <typename Inbox>
void run_large_tasks_in_order() {
  Inbox inbox;
  receipts received;
  {
    thread producer([&] {
      post_large(inbox, received, 0);
      post_large(inbox, received, 1);
      post(inbox, received, 2);
      post_large(inbox, received, 3);
      post(inbox, received, 4);
    });
    run_until_received(inbox, received, 5);
  }
  for (int id = 1; id < 5; ++id) assert_that(received.in_order(id - 1, id), "in order");
  assert_that(inbox.pending() == 0 && !inbox.ready(), "nothing is left");
}

}  // namespace gyre::model
