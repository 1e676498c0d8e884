// Work that is split over threads within a call, and calls that are repeated: the helper threads start before the
// first call and end after the last, so that starting them is spread over the whole burst.
#pragma once
#include <atomic>
#include <thread>
#include <utility>
#include <vector>
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace tq_bench {

// While it lives, the calling thread stays on the part-th of the CPUs that it may use: a new thread otherwise begins on
// its parent's, and a burst can be over before the scheduler moves it.
class OwnCpu {
 public:
#if defined(__linux__)
  explicit OwnCpu(uint32_t part) {
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && part-- == 0) CPU_SET(cpu, &one);
    if (CPU_COUNT(&one)) pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  }
  ~OwnCpu() { pthread_setaffinity_np(pthread_self(), sizeof before_, &before_); }

 private:
  cpu_set_t before_;
#else
  explicit OwnCpu(uint32_t) {}
#endif
};

inline void relax(uint32_t& spins) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (++spins % 4096 == 0) std::this_thread::yield();  // the other thread may wait for this core
}

// work(part) on `parts` threads, this one included.
template <class Work>
void run_parts(uint32_t parts, const Work& work) {
  std::vector<std::thread> helpers;
  for (uint32_t part = 1; part < parts; ++part)
    helpers.emplace_back([&work, part] {
      const OwnCpu here(part);
      work(part);
    });
  const OwnCpu here(0);
  work(0);
  for (auto& helper : helpers) helper.join();
}

// before(call) on this thread, work(call, part) on all, after(call) on this thread when all parts are done.
template <class Before, class Work, class After>
void repeat_parts(uint32_t calls, uint32_t parts, const Before& before, const Work& work, const After& after) {
  if (parts == 1) {
    for (uint32_t call = 0; call < calls; ++call) {
      before(call);
      work(call, 0);
      after(call);
      asm volatile("" : : : "memory");
    }
    return;
  }
  std::atomic<uint32_t> begun{0}, done{0};
  run_parts(parts, [&](uint32_t part) {
    for (uint32_t call = 0; call < calls; ++call) {
      uint32_t spins = 0;
      if (part == 0) {
        before(call);
        begun.store(call + 1, std::memory_order_release);
      } else {
        while (begun.load(std::memory_order_acquire) <= call) relax(spins);
      }
      work(call, part);
      if (part) {
        done.fetch_add(1, std::memory_order_release);
        continue;
      }
      while (done.load(std::memory_order_acquire) < (call + 1) * (parts - 1)) relax(spins);
      after(call);
    }
  });
}

template <class Work>
void repeat_parts(uint32_t calls, uint32_t parts, const Work& work) {
  repeat_parts(calls, parts, [](uint32_t) {}, work, [](uint32_t) {});
}

}  // namespace tq_bench
