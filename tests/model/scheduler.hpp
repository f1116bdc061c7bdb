// SPDX-License-Identifier: Apache-2.0
//
// The scheduler: runs the threads of a scenario, one at a time, and chooses the next thread at each
// operation, in a depth-first search over all decisions. Each schedule runs from its beginning.
#pragma once

#include <tests/model/decisions.hpp>
#include <tests/model/fiber.hpp>
#include <tests/model/memory.hpp>
#include <tests/model/model.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace gyre::model {

/// Ends the schedule as a failure. The program counters are shown as source lines.
[[noreturn]] void fail(const std::string& why, const void* pc = nullptr,
                       const void* other = nullptr);

/// The source lines of the (non-null) program counters, for stories.
std::string source_lines(const void* const (&pcs)[2]);

/// The machine of a check(): threads, memory, the search and the log.
class scheduler {
 public:
  scheduler(const options& bounds, const std::function<void()>& body);

  result run();

  // Operations of the running thread. Before nearly all of them another thread may go first.
  word load(std::uintptr_t address, std::size_t size, std::memory_order order, detail::where at);
  void store(std::uintptr_t address, std::size_t size, word value, std::memory_order order,
             detail::where at);
  word apply(std::uintptr_t address, std::size_t size, detail::update how, word operand,
             std::memory_order order, detail::where at);
  bool compare_exchange(std::uintptr_t address, std::size_t size, word& expected, word desired,
                        bool weak, std::memory_order success, std::memory_order failure,
                        detail::where at);
  enum class fence_kind { ordinary, light, heavy };
  void fence(fence_kind kind, std::memory_order order, detail::where at);
  void yield(detail::where at);
  unsigned spawn(std::function<void()>* body, detail::where at);  // on the heap
  void join(unsigned id, detail::where at);
  void wake(const void* event, unsigned& pending, detail::where at);
  void wait(const void* event, unsigned& pending, detail::where at);
  void lock(const void* mutex);
  bool try_lock(const void* mutex);
  void unlock(const void* mutex);

  // No switch before these, which only record.
  void construct(std::uintptr_t address, std::size_t size, word value);
  void destroy(std::uintptr_t address);
  void access(std::uintptr_t address, std::size_t size, bool writes, const void* pc);
  void* allocate(std::size_t size, std::size_t alignment);
  bool release(void* memory, const void* pc);  // false if `memory` is not from this heap
  bool unmap(void* memory, std::size_t size);  // false likewise
  void at_thread_exit(void (*function)(void*), void* object);
  void at_program_exit(void (*function)(void*), void* object);
  void name(std::uintptr_t address, const char* name);
  void outside(const std::function<void()>& function);
  [[noreturn]] void fail(const std::string& why, const void* pc, const void* other);

  void crashed(int signal);

  /// Whether a model thread runs code under test, and not the checker on its behalf.
  bool in_scenario() const { return running_ != nullptr && !busy_; }

 private:
  enum class status { unused, ready, blocked, finished };
  struct exit_call {
    void (*function)(void*);
    void* object;
  };
  struct thread_state {
    gyre::model::fiber fiber;
    gyre::model::arena arena;
    observer sees;
    std::function<void()>* body = nullptr;  // on the scenario's heap; null for the first thread
    enum status status = status::unused;
    bool in_turn = false;     // its next operation is already chosen
    unsigned yielded_to = 0;  // a bit for each thread that must run before this one
    const void* blocked_on = nullptr;
    const char* blocked_in = "";
    std::vector<exit_call> at_exit;
  };
  struct sync_object {
    int owner = -1;  // of a mutex
    vector_clock published;
    fingerprint history = 0;
  };
  enum class outcome { completed, pruned, failed };
  /// Marks the time in which the scheduler itself runs on the stack of a model thread.
  class busy {
   public:
    explicit busy(scheduler& self) : self_(self) { self_.busy_ = true; }
    ~busy() { self_.busy_ = false; }
    busy(const busy&) = delete;
    busy& operator=(const busy&) = delete;

   private:
    scheduler& self_;
  };

  outcome run_once();
  void prepare();
  void search(result& found);
  void replay_failing_schedule(result& found);
  void check_leaks();
  static void enter_thread();
  void finish_thread();
  [[noreturn]] void end(outcome how);

  void count_step();
  void step();
  void moved();
  void yield_processor();
  void block(const void* on, const char* in);
  void unblock(const void* on);
  void switch_to(thread_state& next);
  void prune_if_seen();
  std::vector<thread_state*>& eligible(const thread_state* except);
  unsigned atomic_at(std::uintptr_t address, std::size_t size);
  void acquire(sync_object& from);
  void release(sync_object& to);

  void log(detail::where at, const std::string& what);
  std::string describe(std::uintptr_t address) const;

  options bounds_;
  std::function<void()> body_;
  static std::array<thread_state*, max_threads>& all_threads();

  std::array<thread_state*, max_threads>& threads_ = all_threads();
  unsigned started_ = 0;
  thread_state* running_ = nullptr;
  bool busy_ = false;
  memory memory_;
  std::unordered_map<const void*, sync_object> sync_objects_;
  std::vector<exit_call> at_program_exit_;
  std::vector<thread_state*> candidates_;
  std::optional<program_image> image_;

  decisions decisions_;
  table seen_;  // preemptions that were left, by state
  unsigned preemption_bound_ = 0;
  unsigned preemptions_left_ = 0;
  unsigned stale_reads_left_ = 0;
  unsigned spurious_failures_left_ = 0;
  bool bound_mattered_ = false;
  std::size_t steps_ = 0;
  outcome outcome_ = outcome::completed;

  std::string failure_;
  const void* failure_pcs_[2] = {};
  bool logging_ = false;
  std::string log_;
  std::unordered_map<std::uintptr_t, std::string> names_;
};

/// The scheduler of the running check, or null.
scheduler* current();

}  // namespace gyre::model
