/** What a change did, field by field. */
export interface FieldDiff {
  field: string
  before: unknown
  after: unknown
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Compare two values; objects are compared by their fields, `target.url` for nested ones. Equal fields are left out. */
export function diff(before: unknown, after: unknown, path = ''): FieldDiff[] {
  if (isRecord(before) && isRecord(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((field) => diff(before[field], after[field], path ? `${path}.${field}` : field))
  }
  if (isRecord(after) && before === undefined && path === '') return Object.entries(after).map(([field, value]) => ({ field, before: undefined, after: value }))
  return isSame(before, after) ? [] : [{ field: path, before, after }]
}

function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length && one.every((value, index) => isSame(value, other[index]))
  if (isRecord(one) && isRecord(other)) {
    const fields = Object.keys(one)
    return fields.length === Object.keys(other).length && fields.every((field) => field in other && isSame(one[field], other[field]))
  }
  return false
}

/** "job.pause" → "paused the job" */
const ACTIONS: Record<string, string> = {
  create: 'created',
  edit: 'edited',
  delete: 'deleted',
  pause: 'paused',
  resume: 'resumed',
  trigger: 'triggered',
  replay: 'replayed',
  cancel: 'cancelled',
  discard: 'discarded',
  revoke: 'revoked',
  purge: 'purged',
}

export function actionText(action: string): string {
  const [what = '', verb = ''] = action.split('.')
  const done = ACTIONS[verb]
  return done ? `${done} the ${what}` : action.replaceAll(/[._]/g, ' ')
}
