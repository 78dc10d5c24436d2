// Remove the fields of package-lock.json that name hosts; `npm ci` needs none of them.
import { readFileSync, writeFileSync } from 'node:fs'

const path = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(path, 'utf8'))
for (const entry of Object.values(lock.packages)) {
  delete entry.resolved
  delete entry.funding
  delete entry.deprecated
}
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
