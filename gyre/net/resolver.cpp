// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/resolver.hpp>

#include <gyre/net/detail/name_engine.hpp>
#include <gyre/net/detail/number.hpp>

#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <new>
#include <type_traits>

namespace gyre::net {

std::optional<std::uint16_t> service::find(std::string_view name) {
  if (const auto number = detail::parse_number<std::uint16_t>(name)) return number;
  const std::string terminated(name);
  std::vector<char> room(1024);
  servent entry{};
  servent* found = nullptr;
  while (::getservbyname_r(terminated.c_str(), nullptr, &entry, room.data(), room.size(), &found) ==
         ERANGE) {
    room.resize(room.size() * 2);
  }
  if (found == nullptr || name.contains('\0')) return std::nullopt;
  return ntohs(static_cast<std::uint16_t>(found->s_port));
}

namespace detail {

// Owned by the lookup that the user has; after detach(), by itself.
struct callback_lookup : waiting_lookup {
  callback_lookup() noexcept : waiting_lookup(&ended) {}
  callback_lookup(const callback_lookup&) = delete;
  callback_lookup& operator=(const callback_lookup&) = delete;
  virtual ~callback_lookup() = default;
  // Deletes it if it is detached, and then calls the function.
  virtual void finish() = 0;

  static void ended(waiting_lookup& told) { static_cast<callback_lookup&>(told).finish(); }

  bool detached = false;
};

namespace {

template <class Result>
struct lookup_of final : callback_lookup {
  explicit lookup_of(move_only_function<void(Result)> called) noexcept : found(std::move(called)) {}

  Result take_result() {
    if constexpr (std::is_same_v<Result, resolve_result>) {
      return std::move(result);
    } else {
      if (!result) return std::unexpected(result.error());
      Result records;
      try {
        decode_records(kind.records, message, records);
      } catch (const std::bad_alloc&) {
        records = std::unexpected(make_error_code(std::errc::not_enough_memory));
      }
      return records;
    }
  }
  void finish() override {
    move_only_function<void(Result)> called = std::move(found);
    Result given = take_result();
    if (detached) delete this;
    called(std::move(given));
  }

  move_only_function<void(Result)> found;
};

}  // namespace

}  // namespace detail

bool lookup::active() const noexcept { return owned_ != nullptr && owned_->active(); }

bool lookup::cancel() noexcept {
  const std::unique_ptr<detail::callback_lookup> ended(std::exchange(owned_, nullptr));
  return ended != nullptr && ended->active() && ended->owner->cancel(*ended);
}

void lookup::detach() noexcept {
  detail::callback_lookup* const left = std::exchange(owned_, nullptr);
  if (left == nullptr) return;
  left->detached = true;
  if (!left->active()) delete left;
}

resolver::resolver(event_loop& loop, resolver_options options)
    : engine_(std::make_shared<detail::name_engine>(loop, std::move(options))) {}

resolver::~resolver() { engine_->close(); }

std::size_t resolver::pending() const noexcept { return engine_->pending(); }

std::size_t resolver::abandoned() const noexcept { return engine_->abandoned(); }

void resolver::clear_cache() noexcept { engine_->cache().clear(); }

dns_cache_metrics resolver::cache_metrics() const noexcept { return engine_->cache().metrics(); }

lookup resolver::begin(std::unique_ptr<detail::callback_lookup> begun, std::string_view host,
                       service port) {
  assert(!engine_->closed() && "a lookup was begun while its resolver is destroyed");
  if (auto known = engine_->known(*begun, host, port)) {
    engine_->tell_later(*begun, std::move(*known));
  } else {
    engine_->ask(*begun, host, port);
  }
  return lookup(begun.release());
}

lookup resolver::resolve(std::string_view host, service port, callback found) {
  return begin(std::make_unique<detail::lookup_of<resolve_result>>(std::move(found)), host, port);
}

detail::resolve_awaiter resolver::resolve(std::string host, service port) {
  return {engine_, std::move(host), port};
}

namespace {

constexpr detail::lookup_kind records_of(detail::record_type type) {
  return {.records = static_cast<std::uint16_t>(type)};
}

template <class Result>
std::unique_ptr<detail::callback_lookup> lookup_for(detail::record_type type,
                                                    move_only_function<void(Result)> found) {
  auto made = std::make_unique<detail::lookup_of<Result>>(std::move(found));
  made->kind = records_of(type);
  return made;
}

}  // namespace

detail::record_awaiter<srv_result> resolver::resolve_srv(std::string name) {
  return {engine_, std::move(name), 0, records_of(detail::record_type::srv)};
}
lookup resolver::resolve_srv(std::string_view name, move_only_function<void(srv_result)> found) {
  return begin(lookup_for<srv_result>(detail::record_type::srv, std::move(found)), name, 0);
}

detail::record_awaiter<text_result> resolver::resolve_txt(std::string name) {
  return {engine_, std::move(name), 0, records_of(detail::record_type::txt)};
}
lookup resolver::resolve_txt(std::string_view name, move_only_function<void(text_result)> found) {
  return begin(lookup_for<text_result>(detail::record_type::txt, std::move(found)), name, 0);
}

detail::record_awaiter<text_result> resolver::resolve_ptr(const ip_address& address) {
  return {engine_, detail::reverse_name(address), 0, records_of(detail::record_type::ptr)};
}
lookup resolver::resolve_ptr(const ip_address& address,
                             move_only_function<void(text_result)> found) {
  const std::string name = detail::reverse_name(address);
  return begin(lookup_for<text_result>(detail::record_type::ptr, std::move(found)), name, 0);
}

namespace detail {

resolve_awaiter resolver_access::resolve_first_family(resolver& names, std::string host,
                                                      service port,
                                                      std::chrono::nanoseconds resolution_delay) {
  return {names.engine_, std::move(host), port, {.resolution_delay = resolution_delay}};
}

lookup resolver_access::resolve_first_family(resolver& names, std::string_view host, service port,
                                             std::chrono::nanoseconds resolution_delay,
                                             resolver::callback found) {
  auto begun = std::make_unique<lookup_of<resolve_result>>(std::move(found));
  begun->kind.resolution_delay = resolution_delay;
  return names.begin(std::move(begun), host, port);
}

resolve_awaiter::~resolve_awaiter() {
  // relaxed: on the loop's thread, or never awaited.
  if (parties_.load(std::memory_order_relaxed) == 0) return;
  callback_.reset();
  assert((parties_.load(std::memory_order_relaxed) & (starting | cancelling)) == 0 &&
         "a lookup was destroyed that was about to start or to be cancelled");
  engine_->cancel(*this);
}

#if GYRE_ASYNC_BACKTRACE
const executor& resolve_awaiter::engine_executor() const noexcept { return engine_->loop(); }
#endif

// False: go on at once.
bool resolve_awaiter::wait(const task_context& context) {
  context_ = &context;
  if (context.stop.stop_requested()) {
    waiting_lookup::result = std::unexpected(make_error_code(std::errc::operation_canceled));
    return false;
  }
  // relaxed: not shared yet.
  parties_.store(starting | resolving, std::memory_order_relaxed);
  if (engine_->loop().in_loop_thread()) return !start();
  engine_->loop().post(static_cast<operation&>(*this));
  return true;
}

// Whether it is over.
bool resolve_awaiter::start() noexcept {
  started_ = true;
  std::optional<resolve_result> known;
  try {
    if (engine_->closed()) {
      known = std::unexpected(make_error_code(std::errc::operation_canceled));
    } else {
      known = engine_->known(*this, host_, service_);
    }
    if (!known) engine_->ask(*this, host_, service_);
  } catch (const std::bad_alloc&) {
    known = std::unexpected(make_error_code(std::errc::not_enough_memory));
  }
  if (known) {
    waiting_lookup::result = std::move(*known);
    return last_of(starting | resolving);
  }
  const inplace_stop_token stop = context_->stop;
  if (stop.stop_possible()) callback_.emplace(stop, on_stop{this});
  return last_of(starting);
}

// Any thread.
void resolve_awaiter::stop() noexcept {
  // acq_rel: the release is for cancel(), through the loop as well; the acquire pairs with the
  // release in last_of(), of one who left before.
  std::uint8_t seen = parties_.load(std::memory_order_acquire);
  do {
    if ((seen & resolving) == 0) return;
  } while (!parties_.compare_exchange_weak(seen, static_cast<std::uint8_t>(seen | cancelling),
                                           std::memory_order_acq_rel, std::memory_order_acquire));
  engine_->loop().post(static_cast<operation&>(*this));
}

void resolve_awaiter::cancel() noexcept {
  const bool in_time = engine_->cancel(*this);
  if (in_time) {
    waiting_lookup::result = std::unexpected(make_error_code(std::errc::operation_canceled));
  }
  if (last_of(in_time ? cancelling | resolving : cancelling)) go_on();
}

bool resolve_awaiter::last_of(unsigned leaving) noexcept {
  // release: pairs with the acquire of the last, who sees what the others did.
  const auto staying = static_cast<std::uint8_t>(~leaving);
  return (parties_.fetch_and(staying, std::memory_order_acq_rel) & staying) == 0;
}

// The awaiter may be gone afterwards.
void resolve_awaiter::go_on() noexcept {
  executor& where = *context_->where;
  if (where.running_here()) {
    gyre::detail::resume(home_.waiting);
  } else {
    where.post(home_);
  }
}

void resolve_awaiter::run(operation& posted) {
  auto& self = static_cast<resolve_awaiter&>(posted);
  if (self.started_) {
    self.cancel();
  } else if (self.start()) {
    self.go_on();
  }
}

void resolve_awaiter::found(waiting_lookup& told) {
  auto& self = static_cast<resolve_awaiter&>(told);
  if (self.last_of(resolving)) self.go_on();
}

resolve_result resolve_awaiter::outcome() noexcept {
  callback_.reset();
  return std::move(waiting_lookup::result);
}

resolve_result resolve_awaiter::result() {
  resolve_result given = outcome();
  if (!given) return std::unexpected(gyre::detail::failure_value(given.error(), context_));
  return given;
}

std::vector<endpoint> resolve_awaiter::await_resume() {
  resolve_result given = outcome();
  if (!given) throw_failure(given.error());
  return std::move(*given);
}

void resolve_awaiter::throw_failure(std::error_code error) const {
  gyre::detail::throw_failure(error, context_, ("resolve " + host_).c_str());
}

void decode_records(std::uint16_t, const std::vector<unsigned char>& message, srv_result& into) {
  into = decode_srv(message);
}

void decode_records(std::uint16_t type, const std::vector<unsigned char>& message,
                    text_result& into) {
  into = decode_texts(static_cast<record_type>(type), message);
}

}  // namespace detail
}  // namespace gyre::net
