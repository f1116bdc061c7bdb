// SPDX-License-Identifier: Apache-2.0
//
// The checker's public interface, which passes calls of the code under test to the scheduler.
#include <tests/model/model.hpp>

#include <tests/model/scheduler.hpp>

#include <signal.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gyre::model {
namespace {

scheduler* active = nullptr;

std::uintptr_t address_of(const volatile void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// The running scheduler. Outside check() there is none, and no test may call the model there.
scheduler& running() {
  if (active == nullptr || !active->in_scenario()) std::abort();
  return *active;
}

bool in_scenario() { return active != nullptr && active->in_scenario(); }

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

// Turns crashes of the code under test into failures of the schedule, on a stack of their own.
class crash_handler {
 public:
  crash_handler() {
    const stack_t own{.ss_sp = stack_.get(), .ss_flags = 0, .ss_size = stack_bytes};
    ::sigaltstack(&own, &old_stack_);
    struct sigaction action{};
    action.sa_handler = [](int signal) { active->crashed(signal); };
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes[i], &action, &old_[i]);
  }
  ~crash_handler() {
    for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes[i], &old_[i], nullptr);
    ::sigaltstack(&old_stack_, nullptr);
  }
  crash_handler(const crash_handler&) = delete;
  crash_handler& operator=(const crash_handler&) = delete;

 private:
  static constexpr std::size_t stack_bytes = 64 * 1024;
  std::unique_ptr<char[]> stack_ = std::make_unique<char[]>(stack_bytes);
  stack_t old_stack_{};
  std::array<struct sigaction, crashes.size()> old_{};
};

}  // namespace

scheduler* current() { return active; }

void fail(const std::string& why, const void* pc, const void* other) {
  if (active == nullptr) std::abort();
  active->fail(why, pc, other);
}

void scheduler::crashed(int signal) {
  if (running_ == nullptr) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  fail(std::string("crash: ") + ::strsignal(signal), nullptr, nullptr);
}

result check(const options& bounds, const std::function<void()>& body) {
  if (active != nullptr) std::abort();
  options adjusted = bounds;
  if (const char* trace = std::getenv("GYRE_MODEL_REPLAY")) adjusted.replay = trace;
  const auto start = std::chrono::steady_clock::now();
  const auto machine = std::make_unique<scheduler>(adjusted, body);
  active = machine.get();
  result found;
  {
    const crash_handler handler;
    found = machine->run();
  }
  active = nullptr;
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

void assert_that(bool condition, const char* claim, std::source_location where) {
  if (condition) return;
  const std::string_view path = where.file_name();
  fail("not so: " + std::string(claim) + " (" + std::string(path.substr(path.rfind('/') + 1)) +
       ':' + std::to_string(where.line()) + ')');
}

void name(const volatile void* atomic, const char* name) {
  running().name(address_of(atomic), name);
}

void outside(const std::function<void()>& function) { running().outside(function); }

void yield(std::source_location where) {
  if (in_scenario()) running().yield(where);
}

void thread_fence(std::memory_order order, std::source_location where) {
  if (in_scenario()) running().fence(scheduler::fence_kind::ordinary, order, where);
}

void asymmetric_light_fence(std::source_location where) {
  if (!in_scenario()) return;
  running().fence(scheduler::fence_kind::light, std::memory_order_seq_cst, where);
}

void asymmetric_heavy_fence(std::source_location where) {
  if (!in_scenario()) return;
  running().fence(scheduler::fence_kind::heavy, std::memory_order_seq_cst, where);
}

thread::thread(std::function<void()> body, std::source_location where)
    : id_(running().spawn(new std::function<void()>(std::move(body)), where)) {}

thread::~thread() {
  if (!joined_) join();
}

void thread::join(std::source_location where) {
  running().join(id_, where);
  joined_ = true;
}

void event::wake(std::source_location where) { running().wake(this, pending_, where); }
void event::wait(std::source_location where) { running().wait(this, pending_, where); }

namespace detail {

void construct(const volatile void* atomic, std::size_t size, word value) {
  if (in_scenario()) running().construct(address_of(atomic), size, value);
}

void destroy(const volatile void* atomic) noexcept {
  if (in_scenario()) running().destroy(address_of(atomic));
}

word load(const volatile void* atomic, std::size_t size, memory_order order, where at) {
  return running().load(address_of(atomic), size, order, at);
}

void store(volatile void* atomic, std::size_t size, word value, memory_order order, where at) {
  running().store(address_of(atomic), size, value, order, at);
}

word apply(volatile void* atomic, std::size_t size, update how, word operand, memory_order order,
           where at) {
  return running().apply(address_of(atomic), size, how, operand, order, at);
}

bool compare_exchange(volatile void* atomic, std::size_t size, word& expected, word desired,
                      bool weak, memory_order success, memory_order failure, where at) {
  return running().compare_exchange(address_of(atomic), size, expected, desired, weak, success,
                                    failure, at);
}

}  // namespace detail
}  // namespace gyre::model
