// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/resolver.hpp>

#include <gyre/base/detail/enum_category.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/name_engine.hpp>

#include <cassert>
#include <new>
#include <type_traits>

namespace gyre::net {
namespace {

const char* message_of(resolve_errc code) noexcept {
  switch (code) {
    case resolve_errc::host_not_found: return "host not found";
    case resolve_errc::no_data: return "the host has no such address";
    case resolve_errc::timed_out: return "the name servers did not answer in time";
    case resolve_errc::server_failure: return "the name server failed";
    case resolve_errc::refused: return "the name server refused to answer";
    case resolve_errc::bad_name: return "not a valid host name";
    case resolve_errc::bad_response: return "the name server's answer makes no sense";
    case resolve_errc::no_server: return "no name server gave an answer";
    case resolve_errc::service_not_found: return "service not found";
    case resolve_errc::resolver_destroyed: return "the resolver was destroyed during the lookup";
    case resolve_errc::numeric_host:
      return "a number is no host: an IPv4 address has four decimal parts";
  }
  return "unknown error";
}

std::errc condition_of(resolve_errc code) noexcept {
  switch (code) {
    case resolve_errc::timed_out: return std::errc::timed_out;
    case resolve_errc::resolver_destroyed: return std::errc::operation_canceled;
    case resolve_errc::numeric_host: return std::errc::invalid_argument;
    default: return {};
  }
}

}  // namespace

const std::error_category& resolve_category() noexcept {
  static const gyre::detail::enum_category<resolve_errc> category("resolve", message_of,
                                                                  condition_of);
  return category;
}

namespace detail {

// A lookup with a callback. The user's lookup owns the object; after detach(), the object owns
// itself.
struct callback_lookup : waiting_lookup {
  using waiting_lookup::waiting_lookup;
  callback_lookup(const callback_lookup&) = delete;
  callback_lookup& operator=(const callback_lookup&) = delete;
  virtual ~callback_lookup() = default;

  bool is_detached = false;
};

namespace {

template <class Result>
struct typed_lookup final : callback_lookup {
  explicit typed_lookup(move_only_function<void(Result)> handler,
                        lookup_kind requested_kind = {}) noexcept
      : callback_lookup(&finish), callback(std::move(handler)) {
    kind = requested_kind;
  }

  Result take_result() {
    if constexpr (std::is_same_v<Result, resolve_result>) {
      return std::move(result);
    } else {
      try {
        return decode_records<Result>(*this, result);
      } catch (const std::bad_alloc&) {
        return std::unexpected(detail::no_memory());
      }
    }
  }
  // Deletes the lookup if it is detached, and then calls its function.
  static void finish(waiting_lookup& lookup) {
    auto& self = static_cast<typed_lookup&>(lookup);
    move_only_function<void(Result)> function = std::move(self.callback);
    Result outcome = self.take_result();
    if (self.is_detached) delete &self;
    function(std::move(outcome));
  }

  move_only_function<void(Result)> callback;
};

}  // namespace

}  // namespace detail

bool lookup::active() const noexcept { return lookup_ != nullptr && lookup_->active(); }

bool lookup::cancel() noexcept {
  const bool is_in_time = active();
  lookup_.reset();
  return is_in_time;
}

void lookup::cancelling_delete::operator()(detail::callback_lookup* lookup_state) const noexcept {
  if (lookup_state->active()) lookup_state->owner->cancel(*lookup_state);
  delete lookup_state;
}

void lookup::detach() noexcept {
  detail::callback_lookup* const own_lookup = lookup_.release();
  if (own_lookup == nullptr) return;
  own_lookup->is_detached = true;
  if (!own_lookup->active()) delete own_lookup;
}

resolver::resolver(event_loop& loop, resolver_options options)
    : engine_(std::make_shared<detail::name_engine>(loop, std::move(options))) {}

resolver::~resolver() { engine_->close(); }

std::size_t resolver::pending() const noexcept { return engine_->pending(); }
std::size_t resolver::abandoned() const noexcept { return engine_->abandoned(); }
void resolver::clear_cache() noexcept { engine_->cache().clear(); }
dns_cache_metrics resolver::cache_metrics() const noexcept { return engine_->cache().metrics(); }

lookup resolver::begin(std::unique_ptr<detail::callback_lookup> new_lookup, std::string_view host,
                       service port) {
  assert(!engine_->closed() && "a lookup was begun while its resolver is destroyed");
  if (auto outcome = engine_->resolve_locally(*new_lookup, host, port)) {
    engine_->complete_later(*new_lookup, std::move(*outcome));
  } else {
    engine_->start_query(*new_lookup, host, port);
  }
  return lookup(new_lookup.release());
}

lookup resolver::resolve(std::string_view host, service port, callback handler) {
  return begin(std::make_unique<detail::typed_lookup<resolve_result>>(std::move(handler)), host,
               port);
}

detail::resolve_awaiter resolver::resolve(std::string host, service port) {
  return {engine_, std::move(host), port};
}

namespace {

constexpr detail::lookup_kind records_of(detail::record_type type) {
  return {.records = static_cast<std::uint16_t>(type)};
}
constexpr detail::lookup_kind of_services = records_of(detail::record_type::srv);
constexpr detail::lookup_kind of_texts = records_of(detail::record_type::txt);
constexpr detail::lookup_kind of_names = records_of(detail::record_type::ptr);

}  // namespace

detail::record_awaiter<srv_result> resolver::resolve_srv(std::string name) {
  return {engine_, std::move(name), 0, of_services};
}
lookup resolver::resolve_srv(std::string_view name, move_only_function<void(srv_result)> handler) {
  return begin(std::make_unique<detail::typed_lookup<srv_result>>(std::move(handler), of_services),
               name, 0);
}

detail::record_awaiter<text_result> resolver::resolve_txt(std::string name) {
  return {engine_, std::move(name), 0, of_texts};
}
lookup resolver::resolve_txt(std::string_view name, move_only_function<void(text_result)> handler) {
  return begin(std::make_unique<detail::typed_lookup<text_result>>(std::move(handler), of_texts),
               name, 0);
}

detail::record_awaiter<text_result> resolver::resolve_ptr(const ip_address& address) {
  return {engine_, detail::reverse_name(address), 0, of_names};
}
lookup resolver::resolve_ptr(const ip_address& address,
                             move_only_function<void(text_result)> handler) {
  return begin(std::make_unique<detail::typed_lookup<text_result>>(std::move(handler), of_names),
               detail::reverse_name(address), 0);
}

namespace detail {

resolve_awaiter resolver_access::resolve_first_family(resolver& names, std::string host,
                                                      service port, duration resolution_delay) {
  return {names.engine_, std::move(host), port, {.resolution_delay = resolution_delay}};
}

lookup resolver_access::resolve_first_family(resolver& names, std::string_view host, service port,
                                             duration resolution_delay,
                                             resolver::callback handler) {
  return names.begin(std::make_unique<typed_lookup<resolve_result>>(
                         std::move(handler), lookup_kind{.resolution_delay = resolution_delay}),
                     host, port);
}

resolve_awaiter::~resolve_awaiter() {
  if (abandon()) engine_->cancel(*this);
}

executor& resolve_awaiter::engine_executor() const noexcept { return engine_->loop(); }

bool resolve_awaiter::wait(std::coroutine_handle<> coroutine, const task_context& context) {
  set_context(context);
  if (context.stop.stop_requested()) {
    waiting_lookup::result = std::unexpected(cancelled());
    return false;
  }
  return begin(engine_executor(), coroutine, context);
}

bool resolve_awaiter::start() noexcept {
  std::optional<resolve_result> outcome;
  try {
    if (engine_->closed()) {
      outcome = failure(resolve_errc::resolver_destroyed);
    } else {
      outcome = engine_->resolve_locally(*this, host_, service_);
    }
    if (!outcome) engine_->start_query(*this, host_, service_);
  } catch (const std::bad_alloc&) {
    outcome = std::unexpected(detail::no_memory());
  }
  if (outcome) waiting_lookup::result = std::move(*outcome);
  return outcome.has_value();
}

bool resolve_awaiter::cancel() noexcept {
  const bool is_in_time = engine_->cancel(*this);
  if (is_in_time) waiting_lookup::result = std::unexpected(cancelled());
  return is_in_time;
}

void resolve_awaiter::on_complete(waiting_lookup& lookup) {
  static_cast<resolve_awaiter&>(lookup).complete_event();
}

resolve_result resolve_awaiter::take_result() noexcept {
  end();
  return std::move(waiting_lookup::result);
}

resolve_result resolve_awaiter::result() {
  resolve_result outcome = take_result();
  if (!outcome) return std::unexpected(gyre::detail::failure_value(outcome.error(), context()));
  return outcome;
}

std::vector<endpoint> resolve_awaiter::await_resume() {
  resolve_result outcome = take_result();
  if (!outcome) throw_failure(outcome.error());
  return std::move(*outcome);
}

void resolve_awaiter::throw_failure(std::error_code error) const {
  gyre::detail::throw_failure(error, context(), ("resolve " + host_).c_str());
}

template <class Result>
Result decode_records(const waiting_lookup& lookup, const resolve_result& outcome) {
  if (!outcome) return std::unexpected(outcome.error());
  if constexpr (std::is_same_v<Result, srv_result>) {
    return decode_srv(lookup.message);
  } else {
    return decode_texts(static_cast<record_type>(lookup.kind.records), lookup.message);
  }
}
template srv_result decode_records(const waiting_lookup&, const resolve_result&);
template text_result decode_records(const waiting_lookup&, const resolve_result&);

}  // namespace detail
void write_metrics(metrics::exposition& output, const resolver& source) {
  write_metrics(output, source.cache_metrics());
}

}  // namespace gyre::net
