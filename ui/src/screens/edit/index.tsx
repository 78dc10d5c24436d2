import { Screen } from '../../components/Screen'

export default function Edit() {
  return (
    <Screen title="Edit">
      <p className="hb-muted">Create or change a job, with the next times before and after.</p>
    </Screen>
  )
}
