export const ROLES = ['viewer', 'operator', 'editor', 'admin'] as const
export type Role = (typeof ROLES)[number]

/** Whether a role may do what needs another; each role may do all that the ones before it may. */
export function may(role: Role | undefined, needed: Role): boolean {
  return role !== undefined && ROLES.indexOf(role) >= ROLES.indexOf(needed)
}
