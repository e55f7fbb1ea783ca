/* SPDX-License-Identifier: MIT
 *
 * Loads and stores of fields that another thread or process reads or writes.
 */
#ifndef BASE_ATOMICS_H
#define BASE_ATOMICS_H

#define atomic_get(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define atomic_set(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define atomic_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define atomic_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define atomic_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

#endif
