import { Screen } from '../../components/Screen'

export default function Jobs() {
  return (
    <Screen title="Jobs">
      <p className="hb-muted">All jobs, with search, filters, selection and actions on many.</p>
    </Screen>
  )
}
