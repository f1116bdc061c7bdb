// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/contender.hpp>

#include <lab/harness/affinity.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/memory_limit.hpp>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <optional>

namespace lab {
namespace {

constexpr int status_ok = 0;
constexpr int status_failed = 1;
constexpr int status_usage = 2;
constexpr int status_refused = 4;  // 3: memory_limit::exit_status

/// The events that a run counts beside its figures, at the price of slowing down.
enum class counted { nothing, allocations };

}  // namespace

void report::check(std::string_view name, std::uint64_t actual, std::uint64_t expected) {
  checks_.add(name, actual);
  if (actual != expected) {
    fail(std::string(name) + " " + std::to_string(actual) + ", expected " +
         std::to_string(expected));
  }
}

std::string report::text() const {
  json_object line;
  line.add("schema", 1).add("experiment", program_.experiment).add("contender", program_.contender);
  line.add("ok", ok());
  if (out_of_memory_) line.add("out_of_memory", true);
  if (refused_) line.add("refused", true);
  if (!ok()) line.add("error", error_);
  line.add("parameters", parameters_);
  if (ok()) line.add("metrics", metrics_);
  line.add("checks", checks_);
  if (units_ > 0) line.add("units", json_object().add("name", unit_).add("count", units_));

  json_object versions;
  for (const auto& [name, version] : program_.libraries) versions.add(name, version);
  json_object build;
  build.add("compiler", program_.compiler).add("flags", program_.flags).add("libraries", versions);
  return line.add("build", build).text();
}

void report::abandon() {
  fail("abandoned");
  std::cout << text() << std::endl;
  std::_Exit(status_failed);
}

int contender_main(int argc, const char* const* argv, const identity& program,
                   arguments& parameters,
                   const std::function<void(const harness_options&, report&)>& workload) {
  harness_options harness;
  counted count = counted::nothing;
  parameters.end_of_parameters()
      .list("pin", harness.pin, "run on these CPUs only")
      .decimal("handicap", harness.handicap, "slow down by this many percent, on purpose")
      .choice("sabotage", harness.sabotage, "lose or duplicate one task, on purpose",
              {{"none", fault::none}, {"lose", fault::lose}, {"duplicate", fault::duplicate}})
      .number("memory-limit", harness.memory_limit,
              "MiB of memory the process may use; 0: no limit")
      .choice("count", count, "count allocations, which slows each of them down",
              {{"nothing", counted::nothing}, {"allocations", counted::allocations}});

  const std::string name = program.experiment + "/" + program.contender;
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::cout << "usage: " << name << " [--key value]…\n" << parameters.help();
    return status_ok;
  }
  try {
    parameters.parse(argc, argv);
    pin_thread(harness.pin);
  } catch (const usage_error& wrong) {
    std::cerr << name << ": " << wrong.what() << "\n\noptions:\n" << parameters.help();
    return status_usage;
  }

  report result(program, parameters.values());
  // A report of its own: another thread may be writing `result` when memory runs out.
  report death(program, parameters.values());
  const auto say = [&death](const std::string& what) {
    death.out_of_memory(what);
    std::cout << death.text() << std::endl;
  };
  std::optional<memory_limit> limit;
  try {
    if (count == counted::allocations) count_allocations(argv);
    if (harness.memory_limit > 0) limit.emplace(harness.memory_limit, say);
    workload(harness, result);
  } catch (const std::bad_alloc& problem) {
    if (limit) limit->exceeded();
    result.fail(problem.what());
  } catch (const cannot_run& reason) {
    result.refuse(reason.what());
  } catch (const std::exception& problem) {
    result.fail(problem.what());
  }
  std::cout << result.text() << std::endl;
  if (result.refused()) return status_refused;
  return result.ok() ? status_ok : status_failed;
}

}  // namespace lab
