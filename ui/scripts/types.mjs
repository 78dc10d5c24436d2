// Write the types of the API from docs/openapi.json.
import { writeFileSync } from 'node:fs'
import openapiTS, { astToString, COMMENT_HEADER } from 'openapi-typescript'

const root = new URL('../..', import.meta.url)
const types = await openapiTS(new URL('docs/openapi.json', root), { defaultNonNullable: false })
writeFileSync(new URL('ui/src/api/schema.d.ts', root), COMMENT_HEADER + astToString(types))
