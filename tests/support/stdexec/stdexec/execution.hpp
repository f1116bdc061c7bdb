// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's stdexec on machines without it: as much of std::execution (P2300) as the
// tests of gyre/task/adapter/stdexec.hpp use, under the same names and with the same meaning.
//
//     auto [answer] = stdexec::sync_wait(stdexec::then(stdexec::just(41), increment)).value();
//
// The tests pass with stdexec as well, which CMake prefers where it is installed.
#pragma once

#include <concepts>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace stdexec {

struct sender_t {};
struct receiver_t {};
struct operation_state_t {};
struct scheduler_t {};

// Completions.

struct set_value_t {
  template <class Receiver, class... Values>
    requires(!std::is_lvalue_reference_v<Receiver>)
  auto operator()(Receiver&& receiver, Values&&... values) const noexcept
      -> decltype(std::move(receiver).set_value(std::forward<Values>(values)...)) {
    static_assert(noexcept(std::move(receiver).set_value(std::forward<Values>(values)...)));
    std::move(receiver).set_value(std::forward<Values>(values)...);
  }
};
struct set_error_t {
  template <class Receiver, class Error>
    requires(!std::is_lvalue_reference_v<Receiver>)
  auto operator()(Receiver&& receiver, Error&& error) const noexcept
      -> decltype(std::move(receiver).set_error(std::forward<Error>(error))) {
    static_assert(noexcept(std::move(receiver).set_error(std::forward<Error>(error))));
    std::move(receiver).set_error(std::forward<Error>(error));
  }
};
struct set_stopped_t {
  template <class Receiver>
    requires(!std::is_lvalue_reference_v<Receiver>)
  auto operator()(Receiver&& receiver) const noexcept
      -> decltype(std::move(receiver).set_stopped()) {
    static_assert(noexcept(std::move(receiver).set_stopped()));
    std::move(receiver).set_stopped();
  }
};
inline constexpr set_value_t set_value{};
inline constexpr set_error_t set_error{};
inline constexpr set_stopped_t set_stopped{};

// Environments and their queries.

template <class...>
struct env {};

struct get_env_t {
  template <class Object>
  decltype(auto) operator()(const Object& object) const noexcept {
    if constexpr (requires { object.get_env(); }) {
      return object.get_env();
    } else {
      return env<>();
    }
  }
};
inline constexpr get_env_t get_env{};
template <class Object>
using env_of_t = decltype(get_env(std::declval<Object>()));

class never_stop_token {
  struct callback {
    explicit callback(never_stop_token, auto&&) noexcept {}
  };

 public:
  template <class>
  using callback_type = callback;
  static constexpr bool stop_requested() noexcept { return false; }
  static constexpr bool stop_possible() noexcept { return false; }
  bool operator==(const never_stop_token&) const = default;
};

class inplace_stop_token {
 public:
  template <class Function>
  class callback_type {
   public:
    template <class Initializer>
    callback_type(inplace_stop_token token, Initializer&& initializer)
        : callback_(token.token_, std::forward<Initializer>(initializer)) {}

   private:
    std::stop_callback<Function> callback_;
  };

  inplace_stop_token() noexcept : token_(std::nostopstate_t{}) {}
  bool stop_requested() const noexcept { return token_.stop_requested(); }
  bool stop_possible() const noexcept { return token_.stop_possible(); }
  bool operator==(const inplace_stop_token&) const = default;

 private:
  friend class inplace_stop_source;
  struct token : std::stop_token {
    explicit token(std::nostopstate_t) noexcept {}
    explicit token(std::stop_token from) noexcept : std::stop_token(std::move(from)) {}
  };
  explicit inplace_stop_token(std::stop_token from) noexcept : token_(std::move(from)) {}
  token token_;
};
class inplace_stop_source {
 public:
  inplace_stop_token get_token() const noexcept { return inplace_stop_token(source_.get_token()); }
  bool request_stop() noexcept { return source_.request_stop(); }

 private:
  std::stop_source source_;
};

template <class Token>
concept unstoppable_token = requires { requires !Token::stop_possible(); };
template <class Token, class Function>
using stop_callback_for_t = typename Token::template callback_type<Function>;

struct get_stop_token_t {
  template <class Environment>
  auto operator()(const Environment& environment) const noexcept {
    if constexpr (requires { environment.query(*this); }) {
      return environment.query(*this);
    } else {
      return never_stop_token();
    }
  }
};
inline constexpr get_stop_token_t get_stop_token{};
template <class Environment>
using stop_token_of_t = decltype(get_stop_token(std::declval<Environment>()));

struct get_scheduler_t {
  template <class Environment>
  auto operator()(const Environment& environment) const noexcept
      -> decltype(environment.query(*this)) {
    return environment.query(*this);
  }
};
inline constexpr get_scheduler_t get_scheduler{};

template <class Completion>
struct get_completion_scheduler_t {
  template <class Environment>
  auto operator()(const Environment& environment) const noexcept
      -> decltype(environment.query(*this)) {
    return environment.query(*this);
  }
};
template <class Completion>
inline constexpr get_completion_scheduler_t<Completion> get_completion_scheduler{};

// Signatures: a sender has a type `completion_signatures`, or a function for each environment.

template <class... Signatures>
struct completion_signatures {};

namespace detail {

template <class Sender, class... Environment>
consteval auto signatures() {
  if constexpr (requires { typename Sender::completion_signatures; }) {
    return typename Sender::completion_signatures();
  } else {
    return Sender::template get_completion_signatures<Sender, Environment...>();
  }
}

}  // namespace detail

template <class Sender, class... Environment>
  requires requires { typename std::remove_cvref_t<Sender>::completion_signatures; } || requires {
    std::remove_cvref_t<Sender>::template get_completion_signatures<Sender, Environment...>();
  }
using completion_signatures_of_t =
    decltype(detail::signatures<std::remove_cvref_t<Sender>, Environment...>());

namespace detail {

template <class... Elements>
struct list {};
template <class... Lists>
struct join : std::type_identity<list<>> {};
template <class... Elements>
struct join<list<Elements...>> : std::type_identity<list<Elements...>> {};
template <class... First, class... Second, class... Others>
struct join<list<First...>, list<Second...>, Others...>
    : join<list<First..., Second...>, Others...> {};
template <class List, template <class...> class To>
struct apply;
template <class... Elements, template <class...> class To>
struct apply<list<Elements...>, To> : std::type_identity<To<Elements...>> {};

template <class Signature, template <class...> class Tuple>
struct values_of : std::type_identity<list<>> {};
template <class... Values, template <class...> class Tuple>
struct values_of<set_value_t(Values...), Tuple> : std::type_identity<list<Tuple<Values...>>> {};

template <class Signatures, template <class...> class Tuple, template <class...> class Variant>
struct value_types;
template <class... Signatures, template <class...> class Tuple, template <class...> class Variant>
struct value_types<completion_signatures<Signatures...>, Tuple, Variant>
    : apply<typename join<list<>, typename values_of<Signatures, Tuple>::type...>::type, Variant> {
};

template <class Receiver, class Signature>
inline constexpr bool accepts = false;
template <class Receiver, class Completion, class... Arguments>
inline constexpr bool accepts<Receiver, Completion(Arguments...)> =
    std::is_invocable_v<Completion, Receiver, Arguments...>;
template <class Receiver, class Signatures>
inline constexpr bool accepts_all = false;
template <class Receiver, class... Signatures>
inline constexpr bool accepts_all<Receiver, completion_signatures<Signatures...>> =
    (accepts<Receiver, Signatures> && ...);

}  // namespace detail

template <class Sender, class Environment, template <class...> class Tuple,
          template <class...> class Variant>
using value_types_of_t =
    typename detail::value_types<completion_signatures_of_t<Sender, Environment>, Tuple,
                                 Variant>::type;

// Concepts.

template <class T>
concept receiver =
    std::derived_from<typename std::remove_cvref_t<T>::receiver_concept, receiver_t> &&
    std::move_constructible<std::remove_cvref_t<T>>;
template <class T, class Signatures>
concept receiver_of = receiver<T> && detail::accepts_all<std::remove_cvref_t<T>, Signatures>;
template <class T>
concept operation_state =
    std::derived_from<typename T::operation_state_concept, operation_state_t> &&
    requires(T& object) {
      { object.start() } noexcept;
    };
template <class T>
concept sender = std::derived_from<typename std::remove_cvref_t<T>::sender_concept, sender_t> &&
                 std::move_constructible<std::remove_cvref_t<T>>;
template <class T, class... Environment>
concept sender_in =
    sender<T> && requires { typename completion_signatures_of_t<T, Environment...>; };

struct connect_t {
  template <sender Sender, receiver Receiver>
    requires receiver_of<Receiver, completion_signatures_of_t<Sender, env_of_t<Receiver>>>
  auto operator()(Sender&& sender, Receiver&& receiver) const
      -> decltype(std::forward<Sender>(sender).connect(std::forward<Receiver>(receiver))) {
    return std::forward<Sender>(sender).connect(std::forward<Receiver>(receiver));
  }
};
inline constexpr connect_t connect{};
template <class Sender, class Receiver>
using connect_result_t = decltype(connect(std::declval<Sender>(), std::declval<Receiver>()));
template <class Sender, class Receiver>
concept sender_to =
    sender_in<Sender, env_of_t<Receiver>> && requires(Sender&& sender, Receiver&& receiver) {
      connect(std::forward<Sender>(sender), std::forward<Receiver>(receiver));
    };

struct start_t {
  template <operation_state Operation>
  void operator()(Operation& operation) const noexcept {
    operation.start();
  }
};
inline constexpr start_t start{};

struct schedule_t {
  template <class Scheduler>
  auto operator()(Scheduler&& scheduler) const
      -> decltype(std::forward<Scheduler>(scheduler).schedule()) {
    return std::forward<Scheduler>(scheduler).schedule();
  }
};
inline constexpr schedule_t schedule{};
template <class T>
concept scheduler =
    requires(const std::remove_cvref_t<T>& object) {
      { schedule(object) } -> sender;
    } && std::equality_comparable<std::remove_cvref_t<T>> &&
    std::copy_constructible<std::remove_cvref_t<T>>;

// Algorithms.

namespace detail {

template <class Completion, class... Values>
class just_sender {
 public:
  using sender_concept = sender_t;
  using completion_signatures = stdexec::completion_signatures<Completion(Values...)>;

  explicit just_sender(Values... values) : values_(std::move(values)...) {}

  template <class Receiver>
  struct operation {
    using operation_state_concept = operation_state_t;
    std::tuple<Values...> values;
    Receiver receiver;
    void start() noexcept {
      std::apply([this](auto&... each) { Completion()(std::move(receiver), std::move(each)...); },
                 values);
    }
  };
  template <class Receiver>
  operation<Receiver> connect(Receiver receiver) && {
    return {std::move(values_), std::move(receiver)};
  }
  template <class Receiver>
  operation<Receiver> connect(Receiver receiver) const& {
    return {values_, std::move(receiver)};
  }

 private:
  std::tuple<Values...> values_;
};

template <class Signature, class Function>
struct then_signature : std::type_identity<list<Signature>> {};
template <class... Values, class Function>
struct then_signature<set_value_t(Values...), Function> {
  using result = std::invoke_result_t<Function, Values...>;
  template <class T>
  struct completion : std::type_identity<set_value_t(T)> {};
  template <std::same_as<void> T>
  struct completion<T> : std::type_identity<set_value_t()> {};
  using type = list<typename completion<result>::type, set_error_t(std::exception_ptr)>;
};
template <class Signatures, class Function>
struct then_signatures;
template <class... Signatures, class Function>
struct then_signatures<completion_signatures<Signatures...>, Function>
    : apply<typename join<list<>, typename then_signature<Signatures, Function>::type...>::type,
            completion_signatures> {};

template <class Sender, class Function>
class then_sender {
  template <class Receiver>
  struct after {
    using receiver_concept = receiver_t;
    Function function;
    Receiver receiver;

    template <class... Values>
      requires std::invocable<Function, Values...>
    void set_value(Values&&... values) noexcept {
      try {
        if constexpr (std::is_void_v<std::invoke_result_t<Function, Values...>>) {
          std::invoke(std::move(function), std::forward<Values>(values)...);
          stdexec::set_value(std::move(receiver));
        } else {
          stdexec::set_value(std::move(receiver),
                             std::invoke(std::move(function), std::forward<Values>(values)...));
        }
      } catch (...) {
        stdexec::set_error(std::move(receiver), std::current_exception());
      }
    }
    template <class Error>
    void set_error(Error&& error) noexcept {
      stdexec::set_error(std::move(receiver), std::forward<Error>(error));
    }
    void set_stopped() noexcept { stdexec::set_stopped(std::move(receiver)); }
    decltype(auto) get_env() const noexcept { return stdexec::get_env(receiver); }
  };

 public:
  using sender_concept = sender_t;
  template <class Self, class... Environment>
  static consteval auto get_completion_signatures() ->
      typename then_signatures<completion_signatures_of_t<Sender, Environment...>, Function>::type {
    return {};
  }

  then_sender(Sender sender, Function function)
      : sender_(std::move(sender)), function_(std::move(function)) {}

  template <class Receiver>
  auto connect(Receiver receiver) && {
    return stdexec::connect(std::move(sender_),
                            after<Receiver>{std::move(function_), std::move(receiver)});
  }

 private:
  Sender sender_;
  Function function_;
};

}  // namespace detail

template <class... Values>
auto just(Values&&... values) {
  return detail::just_sender<set_value_t, std::decay_t<Values>...>(std::forward<Values>(values)...);
}
template <class Error>
auto just_error(Error&& error) {
  return detail::just_sender<set_error_t, std::decay_t<Error>>(std::forward<Error>(error));
}
inline auto just_stopped() { return detail::just_sender<set_stopped_t>(); }

template <sender Sender, class Function>
auto then(Sender&& sender, Function function) {
  return detail::then_sender<std::decay_t<Sender>, Function>(std::forward<Sender>(sender),
                                                             std::move(function));
}

namespace detail {

template <class... Values>
struct decayed_tuple : std::type_identity<std::tuple<std::decay_t<Values>...>> {};
template <class Tuple>
using only_one = typename Tuple::type;

template <class Tuple>
class sync_wait_state {
 public:
  struct receiver {
    using receiver_concept = receiver_t;
    sync_wait_state* state;

    template <class... Values>
    void set_value(Values&&... values) noexcept {
      state->end([&] { state->values_.emplace(std::forward<Values>(values)...); });
    }
    template <class Error>
    void set_error(Error&& error) noexcept {
      state->end([&] {
        if constexpr (std::same_as<std::decay_t<Error>, std::exception_ptr>) {
          state->error_ = std::forward<Error>(error);
        } else {
          state->error_ = std::make_exception_ptr(std::forward<Error>(error));
        }
      });
    }
    void set_stopped() noexcept {
      state->end([] {});
    }
  };

  std::optional<Tuple> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_; });
    if (error_) std::rethrow_exception(error_);
    return std::move(values_);
  }

 private:
  void end(auto&& store) noexcept {
    const std::lock_guard lock(mutex_);
    store();
    has_ended_ = true;
    ended_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::optional<Tuple> values_;
  std::exception_ptr error_;
};

}  // namespace detail

template <sender Sender>
auto sync_wait(Sender&& sender) {
  using tuple = value_types_of_t<Sender, env<>, detail::decayed_tuple, detail::only_one>;
  detail::sync_wait_state<tuple> state;
  auto operation = connect(std::forward<Sender>(sender),
                           typename detail::sync_wait_state<tuple>::receiver{&state});
  start(operation);
  return state.wait();
}

}  // namespace stdexec
