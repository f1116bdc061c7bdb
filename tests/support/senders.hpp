// SPDX-License-Identifier: Apache-2.0
// Senders and receivers for tests of gyre/task/adapter/stdexec.hpp, with stdexec or its stand-in.
//
//     gyre::test::sender_event<int> event;
//     auto waiting = gyre::from_sender(event.sender());
//     event.set_value(42);  // completes it, unless a stop has
#pragma once

#include <stdexec/execution.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::test {

/// Completes the sender that waits for it with a value, on the thread that calls set_value(); a
/// stop completes the sender within request_stop().
template <class... Values>
class sender_event {
  class waiting_operation;

  template <class Receiver>
  class operation;

 public:
  class event_sender {
   public:
    using sender_concept = stdexec::sender_t;
    using completion_signatures =
        stdexec::completion_signatures<stdexec::set_value_t(Values...), stdexec::set_stopped_t()>;

    explicit event_sender(sender_event& event) : event_(&event) {}
    template <stdexec::receiver Receiver>
    operation<Receiver> connect(Receiver receiver) const {
      return operation<Receiver>(*event_, std::move(receiver));
    }

   private:
    sender_event* event_;
  };

  event_sender sender() { return event_sender(*this); }
  bool is_awaited() const { return waiting_.load() != nullptr; }
  /// False if no operation waits (any more).
  bool set_value(Values... values) {
    waiting_operation* const completed = waiting_.exchange(nullptr);
    if (completed == nullptr) return false;
    completed->values.emplace(std::move(values)...);
    completed->end();
    return true;
  }

 private:
  class waiting_operation {
   public:
    waiting_operation& operator=(waiting_operation&&) = delete;
    std::optional<std::tuple<Values...>> values;
    /// By start() and by the first of set_value() and the stop; the second call completes.
    void end() {
      if (ends_.fetch_add(1) == 1) complete();
    }

   protected:
    waiting_operation() = default;
    ~waiting_operation() = default;
    virtual void complete() noexcept = 0;

   private:
    std::atomic<int> ends_{0};
  };

  template <class Receiver>
  class operation final : public waiting_operation {
   public:
    using operation_state_concept = stdexec::operation_state_t;

    operation(sender_event& event, Receiver&& receiver)
        : event_(event), receiver_(std::move(receiver)) {}
    void start() noexcept {
      event_.waiting_.store(this);
      on_stop_.emplace(stdexec::get_stop_token(stdexec::get_env(receiver_)), stop{this});
      this->end();
    }

   private:
    struct stop {
      operation* self;
      void operator()() const noexcept {
        waiting_operation* expected = self;
        if (self->event_.waiting_.compare_exchange_strong(expected, nullptr)) self->end();
      }
    };
    void complete() noexcept override {
      on_stop_.reset();
      if (!this->values) return stdexec::set_stopped(std::move(receiver_));
      std::apply(
          [this](Values&... each) {
            stdexec::set_value(std::move(receiver_), std::forward<Values>(each)...);
          },
          *this->values);
    }

    sender_event& event_;
    Receiver receiver_;
    std::optional<
        stdexec::stop_callback_for_t<stdexec::stop_token_of_t<stdexec::env_of_t<Receiver>>, stop>>
        on_stop_;
  };

  std::atomic<waiting_operation*> waiting_{nullptr};
};

/// Completes within start(), by calling `complete` with the receiver.
template <class Signatures, class Complete>
class inline_sender {
 public:
  using sender_concept = stdexec::sender_t;
  using completion_signatures = Signatures;

  explicit inline_sender(Complete complete) : complete_(std::move(complete)) {}
  template <class Receiver>
  struct operation {
    using operation_state_concept = stdexec::operation_state_t;
    Complete complete;
    Receiver receiver;
    void start() noexcept { complete(std::move(receiver)); }
  };
  template <stdexec::receiver Receiver>
  operation<Receiver> connect(Receiver receiver) && {
    return {std::move(complete_), std::move(receiver)};
  }

 private:
  Complete complete_;
};
template <class... Signatures, class Complete>
auto completes_inline(Complete complete) {
  return inline_sender<stdexec::completion_signatures<Signatures...>, Complete>(
      std::move(complete));
}

/// How an operation ended.
template <class T>
struct sender_outcome {
  std::optional<T> value;
  std::exception_ptr error;
  bool stopped = false;
  std::atomic<int> completions{0};
};

/// Stores the outcome; its environment has a stop token.
template <class T>
class recording_receiver {
 public:
  using receiver_concept = stdexec::receiver_t;

  explicit recording_receiver(sender_outcome<T>& outcome, stdexec::inplace_stop_token stop = {})
      : outcome_(&outcome), stop_(stop) {}

  void set_value() noexcept {
    record([](auto& outcome) { outcome.value.emplace(); });
  }
  template <class Value>
  void set_value(Value&& value) noexcept {
    record([&](auto& outcome) { outcome.value.emplace(std::forward<Value>(value)); });
  }
  void set_error(std::exception_ptr error) noexcept {
    record([&](auto& outcome) { outcome.error = std::move(error); });
  }
  void set_stopped() noexcept {
    record([](auto& outcome) { outcome.stopped = true; });
  }

  struct environment {
    stdexec::inplace_stop_token stop;
    auto query(stdexec::get_stop_token_t) const noexcept { return stop; }
  };
  environment get_env() const noexcept { return {stop_}; }

 private:
  void record(auto&& store) noexcept {
    store(*outcome_);
    outcome_->completions.fetch_add(1);
  }

  sender_outcome<T>* outcome_;
  stdexec::inplace_stop_token stop_;
};

/// Has no stop token, and accepts a completion without values only.
class unstoppable_receiver {
 public:
  using receiver_concept = stdexec::receiver_t;

  explicit unstoppable_receiver(sender_outcome<std::monostate>& outcome) : outcome_(&outcome) {}
  void set_value() noexcept { outcome_->value.emplace(); }

 private:
  sender_outcome<std::monostate>* outcome_;
};

}  // namespace gyre::test
